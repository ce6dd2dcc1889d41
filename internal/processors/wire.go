package processors

import (
	"time"

	"github.com/prefillonly/prefillonly/scheduler/stages"
)

// Operations of a request.
const (
	opAsk = iota
	opYield
	opDone
	opWithdraw
	opPing
)

// request is an event of a process to the order of its host. Times are told as what is left until then: clocks may be set.
type request struct {
	Op    int
	ID    uint64
	Kind  string
	Takes time.Duration // Ask: about; Yield: what is left; Done: what it took
	Left  time.Duration // until Due, with Timed
	Timed bool
	Spare bool
	Apart bool
}

// reply tells a process what became of its stages, and how the host is loaded.
type reply struct {
	Actions []stages.Action
	Load    load
}

// load is how many stages a host runs at a time, and how many wait and run.
type load struct{ Slots, Waiting, Running int }

// requestOf is the message of an event.
func requestOf(event any) request {
	switch e := event.(type) {
	case stages.Ask:
		r := request{Op: opAsk, ID: e.ID, Kind: e.Kind, Takes: e.Takes, Spare: e.Spare, Apart: e.Apart}
		if !e.Due.IsZero() {
			r.Timed, r.Left = true, time.Until(e.Due)
		}
		return r
	case stages.Yield:
		return request{Op: opYield, ID: e.ID, Takes: e.Left}
	case stages.Done:
		return request{Op: opDone, ID: e.ID, Takes: e.Took}
	case stages.Withdraw:
		return request{Op: opWithdraw, ID: e.ID}
	}
	return request{Op: opPing}
}

// event is what a request says, of a stage that the host knows by an id; nil: nothing.
func (r *request) event(now time.Time, id uint64) any {
	switch r.Op {
	case opAsk:
		e := stages.Ask{ID: id, Kind: r.Kind, Takes: r.Takes, Spare: r.Spare, Apart: r.Apart}
		if r.Timed {
			e.Due = now.Add(r.Left)
		}
		return e
	case opYield:
		return stages.Yield{ID: id, Left: r.Takes}
	case opDone:
		return stages.Done{ID: id, Took: r.Takes}
	case opWithdraw:
		return stages.Withdraw{ID: id}
	}
	return nil
}
