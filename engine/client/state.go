package client

import (
	"cmp"
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// State is the pool as it was last heard of. Nobody changes it.
type State struct {
	Epoch     uint64                  // of the scheduler; 0 before the first Welcome
	Heard     time.Time               // when the Welcome came; without one, when the client was made
	Models    map[string]*wire.Served // by name, all that were ever heard of
	Stats     []wire.ModelStats
	Pool      wire.Stats
	Executors []wire.ExecutorState

	revision uint64        // of Models, at this Epoch
	changed  chan struct{} // closed when Models are others
}

// State is the pool's, as it was last heard of.
func (c *Client) State() *State { return c.state.Load() }

// silenceError is an error of engine.CodeUnavailable if the scheduler has been silent for too long.
func (c *Client) silenceError() error {
	if silent := time.Since(c.State().Heard); silent > c.cfg.AwayTimeout {
		return engine.Errorf(engine.CodeUnavailable, "the scheduler has been silent for %v; it may be restarting", silent.Round(time.Second))
	}
	return nil
}

// Model waits until a model's limits are known, and returns what the pool says of it then. It does not wait
// for the weights: jobs do. Its errors are an *engine.Error of engine.CodeUnavailable when the model cannot be
// run, the scheduler is silent, or no executor of it comes, for AwayTimeout, and why ctx has ended.
func (c *Client) Model(ctx context.Context, name string) (*wire.Served, error) {
	if err := c.silenceError(); err != nil {
		return nil, err
	}
	state := c.State()
	if m, err := state.usableModel(name); m != nil || err != nil {
		return m, err
	}
	timer := time.NewTimer(c.cfg.AwayTimeout)
	defer timer.Stop()
	for {
		select {
		case <-state.changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-timer.C:
			return nil, engine.Errorf(engine.CodeUnavailable, "no executor has come up to serve %s within %v", name, c.cfg.AwayTimeout)
		}
		state = c.State()
		if m, err := state.usableModel(name); m != nil || err != nil {
			return m, err
		}
	}
}

// usableModel is a model whose limits are known; nil while it is to be waited for.
func (s *State) usableModel(name string) (*wire.Served, error) {
	switch m := s.Models[name]; {
	case m == nil:
		return nil, nil
	case m.Tokens != nil || m.Tensors != nil:
		return m, nil
	case m.State == wire.ModelFailed:
		return nil, engine.Errorf(engine.CodeUnavailable, "the model %s cannot be run: %s", name, m.Reason)
	}
	return nil, nil
}

// noteLostMessages notes that messages under way, in either direction, may be gone.
func (c *Client) noteLostMessages() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.connected = false
}

// handleWelcome notes the scheduler's state, and sends what the scheduler may not have: all open jobs if
// it is a new one or the connection is.
func (c *Client) handleWelcome(w *wire.Welcome) {
	now := time.Now()
	old, state := c.State(), c.noteWelcome(w, now)
	c.mu.Lock()
	again := !c.connected || w.Epoch != c.scheduler
	c.scheduler, c.connected = w.Epoch, true
	var missing []*wire.Submit
	for _, j := range c.open {
		if again || !j.sent {
			j.sent = true
			missing = append(missing, j.newSubmit(now))
		}
	}
	c.mu.Unlock()
	if again {
		c.log.Info("connected to the scheduler", zap.Uint64("epoch", w.Epoch), zap.Int("jobs_submitted_again", len(missing)))
		c.sendHello() // it may know nothing of this client, and takes no Submit from a stranger
		c.settings.resendWaiting(c.conn)
	}
	c.resubmitJobs(missing)
	if state.changed != old.changed {
		close(old.changed)
	}
}

// resubmitJobs submits again what a scheduler lacks, in order.
func (c *Client) resubmitJobs(missing []*wire.Submit) {
	slices.SortFunc(missing, func(a, b *wire.Submit) int { return cmp.Compare(a.ID, b.ID) })
	for _, msg := range missing {
		c.resendSubmit(msg)
	}
}

// resendSubmit sends a Submit of a job that may have ended or been renamed since.
func (c *Client) resendSubmit(msg *wire.Submit) {
	c.mu.Lock()
	j := c.open[msg.ID]
	c.mu.Unlock()
	if j != nil {
		c.sendJob(j, msg)
	}
}

// noteWelcome makes a Welcome the State.
func (c *Client) noteWelcome(w *wire.Welcome, now time.Time) *State {
	old := c.State()
	s := &State{
		Epoch: w.Epoch, Heard: now, Models: old.Models, Stats: w.Stats, Pool: w.Pool, Executors: w.States,
		revision: old.revision, changed: old.changed,
	}
	switch {
	case w.Epoch != old.Epoch && len(w.Served) == 0:
		s.revision = 0 // an earlier scheduler's; the next Welcome tells
	case w.Epoch != old.Epoch || w.Models != old.revision:
		s.revision, s.changed = w.Models, make(chan struct{})
		s.Models = merge(old.Models, w.Served)
		c.logChanges(old, s)
	}
	c.state.Store(s)
	return s
}

// merge is what is known of models that were said to be so. Limits stay known while no executor says them.
func merge(known map[string]*wire.Served, said []wire.Served) map[string]*wire.Served {
	models := make(map[string]*wire.Served, max(len(known), len(said)))
	for name, m := range known {
		gone := *m
		gone.State, gone.Reason, gone.Executors, gone.Loaded = wire.ModelAbsent, "", 0, 0
		models[name] = &gone
	}
	for i := range said {
		m := said[i]
		m.Reason = engine.HidePaths(m.Reason) // clients are told it
		if old := known[m.Name]; old != nil && m.Executors == 0 && m.Tokens == nil && m.Tensors == nil {
			m.Tokens, m.Tensors = old.Tokens, old.Tensors
		}
		models[m.Name] = &m
	}
	return models
}

// maxLogged bounds the models that one Welcome writes to the log.
const maxLogged = 32

// logChanges says which models are served by more executors, or by fewer.
func (c *Client) logChanges(old, now *State) {
	var changed []*wire.Served
	for name, m := range now.Models {
		if before := old.Models[name]; before == nil && m.Executors > 0 || before != nil && before.Executors != m.Executors {
			changed = append(changed, m)
		}
	}
	slices.SortFunc(changed, func(a, b *wire.Served) int { return cmp.Compare(a.Name, b.Name) })
	for _, m := range changed[:min(len(changed), maxLogged)] {
		fields := []zap.Field{zap.String("model", m.Name), zap.Int("serving", m.Executors)}
		if t := m.Tokens; t != nil {
			fields = append(fields, zap.Int("max_model_len", t.MaxModelLen), zap.Int("prefix_cache_tokens", t.NumBlocks*t.BlockTokens))
		}
		c.log.Info("executors", fields...)
	}
	if more := len(changed) - maxLogged; more > 0 {
		c.log.Info("executors of other models too", zap.Int("models", more))
	}
}
