package scheduler

// fcfs runs jobs in the order of arrival. No job overtakes another, so none starves.
type fcfs struct{}

func (fcfs) key(j *job) float64 { return j.aged }
