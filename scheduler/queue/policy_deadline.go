package queue

import (
	"math"

	"github.com/prefillonly/prefillonly/scheduler/cost"
)

// byDeadline runs the job with the earliest deadline first, whatever queue it is in, and jobs without one
// after all others in the order of submission; those starve while others keep coming.
type byDeadline struct{}

func (byDeadline) Key(j *Job, _ *cost.Model) float64 {
	if j.Deadline == 0 {
		return math.Inf(1)
	}
	return j.Deadline.Seconds()
}

// noDeadline is later than all deadlines, in seconds.
const noDeadline = 1e12

func (d byDeadline) Weigh(j *Job, _ float64, _ Scale) float64 {
	return min(d.Key(j, nil), noDeadline+j.Aged)
}
