package dispatch

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/cost"
)

// AddLane makes the lane of a model that an executor tells of.
func (e *Executor) AddLane(m wire.ModelInfo, g *Group) *Lane {
	l := e.newLane(m, g)
	e.Lanes = append(e.Lanes, l)
	e.Device.Add(&l.Model)
	return l
}

// Renew takes in what is told anew of the lane's model: its weights, what it costs, how it is to be kept. Jobs may wait in
// a lane that is useless by it.
func (l *Lane) Renew(m wire.ModelInfo) {
	if l.Info.Keep != m.Keep && l.Keep(m.Keep) != nil {
		m.Keep = l.Info.Keep
	}
	old := l.Info
	l.Info = m
	if !slices.Equal(old.Weights, m.Weights) || old.Work != m.Work {
		l.Executor.Device.Renew(&l.Model, len(l.Passes()))
	}
	if l.Useless() && l.Waits() || old.Cost == m.Cost {
		return
	}
	jobs := InOrder(l.Jobs())
	for _, j := range jobs {
		l.Take(j)
	}
	l.Cost = cost.New(m.Cost)
	l.newQueues()
	for _, j := range jobs {
		l.Enqueue(j)
	}
}
