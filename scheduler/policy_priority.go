package scheduler

// byPriority runs jobs of a lower Submit.Priority first, in the order of submission within one. Low
// priorities starve while higher ones keep coming.
type byPriority struct{}

func (byPriority) key(j *job) float64 { return float64(j.submit.Priority) }
