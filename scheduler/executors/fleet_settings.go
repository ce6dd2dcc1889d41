package executors

import (
	"github.com/prefillonly/prefillonly/engine"
)

// SetLoaded begins to load a model on all its executors and to keep it there, or to unload it: from then on it takes no
// new job. IsSet says when that is done.
func (f *Fleet) SetLoaded(model string, unload bool) *engine.Error {
	p := f.Pools[model]
	if p == nil || len(p.Instances) == 0 {
		return engine.Errorf(engine.CodeUnavailable, "no executor has model %q", model)
	}
	if len(p.serving) == 0 {
		return p.Instances[0].Unusable()
	}
	f.Models++
	for _, inst := range p.serving {
		if err := inst.Model.Set(unload); err != nil {
			return engine.Errorf(engine.CodeUnavailable, "model %q cannot be kept on %s: %v", model, inst.Executor.Name, err)
		}
		if unload { // streams that were promised their deadlines would have it loaded again
			inst.Executor.Ledger.Forget(model)
		}
	}
	return nil
}

// IsSetLoaded says whether a model is loaded on all its executors, or unloaded, or why it cannot be.
func (f *Fleet) IsSetLoaded(model string, unload bool) (done bool, err *engine.Error) {
	p := f.Pools[model]
	if p == nil || len(p.serving) == 0 {
		return true, engine.Errorf(engine.CodeUnavailable, "no executor has model %q any more", model)
	}
	for _, inst := range p.serving {
		if unload && !inst.IsIdle() {
			return false, nil
		}
		if unload {
			continue
		}
		if loaded, err := inst.IsLoaded(f.Now); !loaded {
			return err != nil, err
		}
	}
	return true, nil
}

// ReopenModel lets a model that has been unloaded take jobs again: it is loaded when one comes.
func (f *Fleet) ReopenModel(model string) {
	f.Models++
	if p := f.Pools[model]; p != nil {
		for _, inst := range p.Instances {
			inst.Reopen()
		}
	}
}
