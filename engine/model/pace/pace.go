// Package pace says how many rows a step of a pass takes, so that steps are about as long on slow devices as on fast
// ones: who waits for a step to end waits no longer than that.
package pace

import "time"

// Step is how long steps are to take, about. A device that computes a whole chunk of a layer in less is not asked to
// stop in between.
const Step = 8 * time.Millisecond

// LowestStep is Step for passes of lowest jobs, whose step all others wait for.
const LowestStep = Step / 2

const (
	// Least is the fewest rows of a step, and what other numbers of them are multiples of: kernels' tiles are
	// as high or half as high, and from here on products run at about the rate of long ones.
	Least = 32
	// weight is that of the newest step in the mean, and surprise by how much it may change it, as a factor: a step
	// may be held up by what is not of its making.
	weight, surprise = 0.1, 2
)

// Pace is how fast a device has computed lately. The zero value knows nothing.
type Pace struct{ perFLOP float64 } // seconds

// Took takes note of a step.
func (p *Pace) Took(flops float64, took time.Duration) {
	if flops <= 0 || took <= 0 {
		return
	}
	now := took.Seconds() / flops
	if p.perFLOP == 0 {
		p.perFLOP = now
		return
	}
	p.perFLOP += weight * (min(now, surprise*p.perFLOP) - p.perFLOP)
}

// Rows is how many of so many rows, which take so many FLOPs together, are to be computed in a step, for all of them
// to take the fewest steps of about so long. Before anything is known it is Least.
func (p *Pace) Rows(rows int, flops float64, step time.Duration) int {
	return p.AtLeast(Least, rows, flops, step)
}

// AtLeast is Rows where other numbers of rows are computed: multiples of the least.
func (p *Pace) AtLeast(least, rows int, flops float64, step time.Duration) int {
	if p.perFLOP == 0 {
		return min(rows, least)
	}
	steps := max(1, int(flops*p.perFLOP/step.Seconds()+0.5))
	each := (rows + steps - 1) / steps
	return min(rows, (each+least-1)/least*least)
}
