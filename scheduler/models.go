package scheduler

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/executors"
)

// setting is a SetModel that is not answered yet.
type setting struct {
	from *peer
	wire.SetModel
}

// handleLoaded takes the answer to a Load. Jobs of a model that could not be loaded go elsewhere, or are answered why.
func (c *Core) handleLoaded(e *executors.Executor, m *wire.Loaded) {
	if e == nil {
		return
	}
	if failed := e.LoadAnswered(m); failed != nil {
		c.modelsChanged()
		c.placeJobs(executors.EmptyInstance(failed))
	}
	c.answerSettings()
	c.dispatchWork(e)
}

// setModel loads or unloads a model at a user's wish, on all executors that have it.
func (c *Core) setModel(from PeerID, m *wire.SetModel) {
	p := c.peers[from]
	if p == nil || p.frontend == nil {
		return
	}
	if err := c.fleet.SetLoaded(m.Model, m.Unload); err != nil {
		c.fleet.Send(from, &wire.ModelSet{Serial: m.Serial, Err: err})
		return
	}
	word := map[bool]string{true: "unload", false: "load"}[m.Unload]
	// The last wish counts; those before it have been heard.
	c.settings = slices.DeleteFunc(c.settings, func(s setting) bool {
		stale := s.Model == m.Model && s.Unload != m.Unload
		if stale {
			c.fleet.Send(s.from.id, &wire.ModelSet{Serial: s.Serial, Err: engine.Errorf(engine.CodeConflict, "model %q was told to %s meanwhile; the last word counts", m.Model, word)})
		}
		return stale
	})
	c.settings = append(c.settings, setting{p, *m})
	for _, e := range c.fleet.Executors {
		e.TendModels()
		c.dispatchWork(e)
	}
	c.answerSettings()
}

// answerSettings answers the settings that have come true, or cannot.
func (c *Core) answerSettings() {
	if len(c.settings) == 0 {
		return
	}
	var unloaded []string
	c.settings = slices.DeleteFunc(c.settings, func(s setting) bool {
		done, err := c.fleet.IsSetLoaded(s.Model, s.Unload)
		if done {
			c.fleet.Send(s.from.id, &wire.ModelSet{Serial: s.Serial, Err: err})
			if s.Unload {
				unloaded = append(unloaded, s.Model)
			}
		}
		return done
	})
	for _, model := range unloaded {
		c.fleet.ReopenModel(model)
	}
}

// sendWelcome answers a Hello. What there is to know of others is for frontends.
func (c *Core) sendWelcome(p *peer) {
	w := &wire.Welcome{Epoch: p.welcomed}
	if p.frontend != nil {
		if c.fleet.Drifted() {
			c.fleet.Models++
		}
		w.Models, w.Pool, w.States = c.fleet.Models, c.fleet.Counters(), c.executorStates()
		if p.knows != w.Models {
			p.knows = w.Models
			w.Served = c.servedModels()
		}
		for _, pool := range c.fleet.Sorted() {
			if pool.Asked {
				w.Stats = append(w.Stats, pool.Gauges())
			}
		}
	}
	c.fleet.Send(p.id, w)
}

// modelsChanged tells the frontends at once which models there are.
func (c *Core) modelsChanged() {
	c.fleet.Models++
	for _, p := range c.frontends {
		c.sendWelcome(p)
	}
}

// servedModels is what frontends are told of the models.
func (c *Core) servedModels() (list []wire.Served) {
	for _, p := range c.fleet.Sorted() {
		if len(p.Instances) > 0 {
			list = append(list, p.Served(c.fleet.Now))
		}
	}
	return list
}
