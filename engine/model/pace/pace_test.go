package pace

import (
	"testing"
	"time"
)

// device takes so long for a FLOP, and so long for a step besides.
type device struct{ perFLOP, step float64 }

func (d device) took(flops float64) time.Duration {
	return time.Duration((d.step + d.perFLOP*flops) * float64(time.Second))
}

// chunk takes rows of a chunk step by step and returns the longest step and how many there were.
func chunk(p *Pace, d device, rows int, perRow float64) (longest time.Duration, steps int) {
	for rows > 0 {
		n := p.Rows(rows, perRow*float64(rows), Step)
		took := d.took(perRow * float64(n))
		p.Took(perRow*float64(n), took)
		longest, rows, steps = max(longest, took), rows-n, steps+1
	}
	return longest, steps
}

// TestSteps: on devices slow and fast steps come to be no longer than half as long again as they should be, whole
// chunks where these are shorter, and of the least rows where these take longer.
func TestSteps(t *testing.T) {
	const rows, perRow = 512, 30e6
	for _, rate := range []float64{1e9, 1e10, 5e10, 2e11, 1e12, 1e13, 5e14} {
		var p Pace
		d := device{1 / rate, 20e-6}
		if n := p.Rows(rows, rows*perRow, Step); n != Least {
			t.Errorf("%v FLOP/s: the first step takes %d rows", rate, n)
		}
		for range 20 {
			chunk(&p, d, rows, perRow)
		}
		longest, steps := chunk(&p, d, rows, perRow)
		whole, least := d.took(rows*perRow), d.took(Least*perRow)
		switch {
		case whole < Step && steps != 1:
			t.Errorf("%v FLOP/s: a chunk of %v takes %d steps", rate, whole, steps)
		case longest > max(Step*3/2, least):
			t.Errorf("%v FLOP/s: a step takes %v, the least %v", rate, longest, least)
		case whole > Step && steps > 1+int(2*whole/Step) && steps > rows/Least:
			t.Errorf("%v FLOP/s: %d steps for a chunk of %v", rate, steps, whole)
		}
	}
}

// TestStall: a step that was held up changes the next ones by little.
func TestStall(t *testing.T) {
	var p Pace
	d := device{perFLOP: 1e-11}
	for range 50 {
		chunk(&p, d, 512, 30e6)
	}
	_, before := chunk(&p, d, 512, 30e6)
	p.Took(30e6, time.Minute)
	if _, after := chunk(&p, d, 512, 30e6); after > before+before/4+1 {
		t.Errorf("%d steps before a stall, %d after it", before, after)
	}
}
