package queue

import "github.com/prefillonly/prefillonly/scheduler/cost"

// byDeadline runs the job with the earliest deadline first, whatever queue it is in, and jobs without one
// after all others in the order of submission; those starve while others keep coming.
type byDeadline struct{}

func (byDeadline) Key(j *Job, _ *cost.Model) float64 { return j.Deadline }

// noDeadline is later than all deadlines, in seconds.
const noDeadline = 1e12

func (byDeadline) Weigh(j *Job, _ float64, _ Scale) float64 {
	return min(j.Deadline, noDeadline+j.Aged)
}
