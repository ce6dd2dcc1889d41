package client

import (
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// TestPaceOfDevices: it is that of all jobs together, which may share passes; nobody's jobs in between and time fade it.
func TestPaceOfDevices(t *testing.T) {
	const cost = 10 * time.Millisecond
	now := time.Now()
	at := func(d time.Duration) time.Time { return now.Add(d) }
	for _, of := range []struct {
		name      string
		passes    [][2]time.Duration // of each: when it ends, and for how long its jobs were open
		jobs      int                // of each pass
		executors int
		want      float64
	}{
		{"alone", [][2]time.Duration{{10, 10}, {60, 10}, {200, 10}}, 1, 1, 1},
		{"beside decoding", [][2]time.Duration{{30, 30}, {60, 60}, {90, 90}}, 1, 1, 3},
		{"four to a pass", [][2]time.Duration{{80, 80}, {160, 160}, {240, 240}}, 4, 1, 2},
		{"two devices", [][2]time.Duration{{5, 10}, {10, 10}, {15, 10}, {20, 10}}, 1, 2, 1.2},
		{"hardly at all", [][2]time.Duration{{9000, 9000}}, 1, 1, slowestYet},
	} {
		var b backlog
		var end time.Time
		for _, p := range of.passes {
			end = at(p[0] * time.Millisecond)
			for range of.jobs {
				b.note(end, &Job{begun: end.Add(-p[1] * time.Millisecond), cost: cost}, of.executors)
			}
		}
		if got := b.slowness(end); got < of.want*.9 || got > of.want*1.1 {
			t.Errorf("%s: %.2f times as long, want %v", of.name, got, of.want)
		}
		if got, half := b.slowness(end.Add(paceFades)), 1+(of.want-1)/2; got < half*.9 || got > half*1.1 {
			t.Errorf("%s: %.2f times as long a while later, want %v", of.name, got, half)
		}
	}
}

// TestPlansCountWhatCameBefore: all that is planned, and when preparation begins only that of which it has begun.
func TestPlansCountWhatCameBefore(t *testing.T) {
	c, _ := newClient(Config{}, nil)
	m := &wire.Served{Name: "eye", Executors: 1, Cost: wire.Cost{Unit: 10 * time.Millisecond}}
	first, second, third := c.Plan(m, 1), c.Plan(m, 2), c.Plan(m, 1)
	if third.Wait != 30*time.Millisecond || third.Cost != 10*time.Millisecond {
		t.Errorf("the third waits for %v, and takes %v; want 30 ms and 10 ms", third.Wait, third.Cost)
	}
	first.Begin()
	if wait, cost := third.Begin(); wait != 10*time.Millisecond || cost != 10*time.Millisecond {
		t.Errorf("the third, before the second, waits for %v, and takes %v; want 10 ms each", wait, cost)
	}
	if wait, _ := third.Begin(); wait != 10*time.Millisecond {
		t.Errorf("it waits for itself: %v", wait)
	}
	for _, p := range []*Plan{first, second, third} {
		p.End()
	}
	if b := c.backlogOf("eye"); b.planned != 0 || b.asked != 0 {
		t.Errorf("in the end there are %v planned and %v asked for", b.planned, b.asked)
	}
}
