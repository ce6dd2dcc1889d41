package fleet

import (
	"math"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// Set begins to load a model on all its executors and to keep it there, or to unload it: from then on it takes no
// new job. IsSet says when that is done.
func (f *Fleet) Set(model string, unload bool) *engine.Error {
	p := f.Pools[model]
	if p == nil || len(p.Lanes) == 0 {
		return engine.Errorf(engine.CodeUnavailable, "no executor has model %q", model)
	}
	if len(p.serving) == 0 {
		return p.Lanes[0].Unusable()
	}
	f.Models++
	for _, l := range p.serving {
		if err := l.Model.Set(unload); err != nil {
			return engine.Errorf(engine.CodeUnavailable, "model %q cannot be kept on %s: %v", model, l.Executor.Peer.Name.Name, err)
		}
		if unload { // streams that were promised their deadlines would have it loaded again
			l.Executor.ledger.Forget(model)
		}
	}
	return nil
}

// IsSet says whether a model is loaded on all its executors, or unloaded, or why it cannot be.
func (f *Fleet) IsSet(model string, unload bool) (done bool, err *engine.Error) {
	p := f.Pools[model]
	if p == nil || len(p.serving) == 0 {
		return true, engine.Errorf(engine.CodeUnavailable, "no executor has model %q any more", model)
	}
	for _, l := range p.serving {
		if unload && !l.idle() {
			return false, nil
		}
		if unload {
			continue
		}
		if loaded, err := l.IsLoaded(f.Now); !loaded {
			return err != nil, err
		}
	}
	return true, nil
}

// idle says that nothing is to be done in a lane, nor on the way to it.
func (l *Lane) idle() bool {
	if l.waiting+l.Lowest.Len() > 0 || l.Comes() {
		return false
	}
	for _, p := range l.Executor.Passes() {
		if p.Lane == l {
			return false
		}
	}
	return true
}

// Reopen lets a model that has been unloaded take jobs again: it is loaded when one comes.
func (f *Fleet) Reopen(model string) {
	f.Models++
	if p := f.Pools[model]; p != nil {
		for _, l := range p.Lanes {
			l.Reopen()
		}
	}
}

// Empty takes the jobs that wait in a lane out of it, in the order of submission.
func (f *Fleet) Empty(l *Lane) []*Job {
	jobs := InOrder(l.jobs())
	for _, j := range jobs {
		f.take(j)
		j.Release()
		j.Lane = nil
		j.Found(0, 0)
	}
	return jobs
}

// Wake is when something is to be done next that no message asks for: a job expires, or a frame is to interrupt the
// running pass. It is false if nothing is.
func (f *Fleet) Wake() (at time.Duration, ok bool) {
	if len(f.expiries) > 0 {
		at, ok = f.expiries[0].expires, true
	}
	for _, e := range f.Executors {
		if e.Running == nil || e.Nested != nil || len(e.promised) == 0 {
			continue
		}
		if latest := e.latest(); latest > f.Now && latest < math.MaxInt64 && (!ok || latest < at) {
			at, ok = latest, true
		}
	}
	return at, ok
}

// Urged lists the executors on which frames wait that are promised their deadlines.
func (f *Fleet) Urged() (list []*Executor) {
	for _, e := range f.Executors {
		if len(e.promised) > 0 {
			list = append(list, e)
		}
	}
	return list
}

// Counters are the counters and gauges of the fleet as a whole.
func (f *Fleet) Counters() wire.Stats {
	s := f.Stats
	for _, e := range f.Executors {
		if len(e.Info.Weights) > 0 {
			s.WeightBytes += e.Info.Memory
			s.WeightUsed += e.Device.Used()
		}
	}
	return s
}
