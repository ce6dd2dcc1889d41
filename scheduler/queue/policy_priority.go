package queue

import "github.com/prefillonly/prefillonly/scheduler/cost"

// byPriority runs jobs of a lower Submit.Priority first, in the order of submission within one, whatever
// queue they are in. Low priorities starve while higher ones keep coming.
type byPriority struct{}

func (byPriority) Key(j *Job, _ *cost.Model) float64 { return float64(j.Priority) }

// century is about as long as jobs may be apart, in seconds.
const century = 3e9

func (byPriority) Weigh(j *Job, _ float64, _ Scale) float64 {
	arrival := max(j.Aged, 0)
	return float64(j.Priority) + arrival/(century+arrival)
}
