package queue

import "github.com/prefillonly/prefillonly/scheduler/cost"

// fcfs runs jobs in the order of arrival, whatever queue they are in. No job overtakes another, so none starves.
type fcfs struct{}

func (fcfs) Key(j *Job, _ *cost.Model) float64 { return j.Aged }

func (fcfs) Weigh(j *Job, _ float64, _ Scale) float64 { return j.Aged }
