package queue

import "github.com/prefillonly/prefillonly/scheduler/cost"

// srjf runs the job with the least work first, by what was cached when it arrived: the paper's
// traditional baseline (section 5.3.2). Long jobs starve while short ones keep coming.
type srjf struct{ inSeconds }

func (srjf) Key(j *Job, m *cost.Model) float64 { return m.Units(j.Size(j.CachedAtArrival)) }
