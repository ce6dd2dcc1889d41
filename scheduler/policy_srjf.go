package scheduler

// srjf runs the job with the least work first, by what was cached when it arrived: the paper's
// traditional baseline (section 5.3.2). Long jobs starve while short ones keep coming.
type srjf struct{}

func (srjf) key(j *job) float64 { return j.executor.cost.Tokens(len(j.seq), j.cachedAtArrival) }
