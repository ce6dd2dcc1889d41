package scheduler

// sjf runs the job with the fewest input tokens first and knows nothing of the cache. Long jobs
// starve while short ones keep coming.
type sjf struct{}

func (sjf) key(j *job) float64 { return j.executor.cost.Tokens(len(j.seq), 0) }
