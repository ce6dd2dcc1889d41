package queue

import "github.com/prefillonly/prefillonly/scheduler/cost"

// sjf runs the job with the fewest input tokens first and knows nothing of the cache; between queues,
// that with the fewest seconds. Long jobs starve while short ones keep coming.
type sjf struct{ inSeconds }

func (sjf) Key(j *Job, m *cost.Model) float64 { return m.Units(j.Size(0)) }
