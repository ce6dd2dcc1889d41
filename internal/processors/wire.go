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
	Op           int
	ID           uint64
	Kind, Tenant string
	Takes        time.Duration // Ask: about; Yield: what is left; Done: what it took
	Age          time.Duration // since Came
	Left         time.Duration // until Due, with Timed
	Timed        bool
	Rest         time.Duration

	First, Yields, Spare, Apart, Outside bool
}

// reply tells a process what became of its stages, and how the host is loaded.
type reply struct {
	Actions []stages.Action
	Load    load
}

// load is how many stages a host runs at a time, of other programs too, and how many wait and run.
type load struct{ Slots, Outside, Waiting, Running int }

// requestOf is the message of an event.
func requestOf(event any) request {
	switch e := event.(type) {
	case stages.Ask:
		r := request{
			Op: opAsk, ID: e.ID, Kind: e.Kind, Tenant: e.Tenant, Takes: e.Takes, Rest: e.Rest,
			First: e.First, Yields: e.Yields, Spare: e.Spare, Apart: e.Apart, Outside: e.Outside,
		}
		if !e.Came.IsZero() {
			r.Age = time.Since(e.Came)
		}
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

// event is what a request of a client says, of a stage that the host knows by an id; nil: nothing.
func (r *request) event(now time.Time, client string, id uint64) any {
	switch r.Op {
	case opAsk:
		e := stages.Ask{
			ID: id, Client: client, Tenant: r.Tenant, Kind: r.Kind, Takes: r.Takes, Came: now.Add(-r.Age), Rest: r.Rest,
			First: r.First, Yields: r.Yields, Spare: r.Spare, Apart: r.Apart, Outside: r.Outside,
		}
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
