package scheduler

import "math"

// byDeadline runs the job with the earliest deadline first, and jobs without one after all others
// in the order of submission; those starve while others keep coming.
type byDeadline struct{}

func (byDeadline) key(j *job) float64 {
	if j.deadline == 0 {
		return math.Inf(1)
	}
	return j.deadline.Seconds()
}
