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

// State is what the last Welcome said, with the limits of the model. These are 0 until an executor of
// the model has been heard of, and stay known while none is alive.
type State struct {
	wire.Welcome
	Heard       time.Time // when the Welcome came; without one, when the client was made
	Serving     int       // executors of the model
	MaxModelLen int       // tokens that a prompt and its answer may have; of the executor with most
	VocabSize   int       // tokens; 0 if no executor says
	BlockTokens int       // tokens of a block of the prefix cache
	NumBlocks   int       // of all executors
}

// State is the pool's, as it was last heard of. The caller does not change it.
func (c *Client) State() *State { return c.state.Load() }

// Limits waits until an executor of the model has been heard of, and returns the State then. Its errors are
// an *engine.Error of engine.CodeUnavailable when the scheduler is silent, or no executor comes, for
// AwayTimeout, and why ctx has ended.
func (c *Client) Limits(ctx context.Context) (*State, error) {
	state := c.State()
	silent := time.Since(state.Heard)
	if silent > c.cfg.AwayTimeout {
		return nil, engine.Errorf(engine.CodeUnavailable, "the scheduler has been silent for %v; it may be restarting", silent.Round(time.Second))
	}
	if state.MaxModelLen > 0 {
		return state, nil
	}
	timer := time.NewTimer(c.cfg.AwayTimeout)
	defer timer.Stop()
	select {
	case <-c.ready:
		return c.State(), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-timer.C:
		return nil, engine.Errorf(engine.CodeUnavailable, "no executor has come up to serve %s within %v", c.cfg.Model, c.cfg.AwayTimeout)
	}
}

// lost notes that messages under way, in either direction, may be gone.
func (c *Client) lost() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.connected = false
}

// welcome notes the scheduler's state, and sends what the scheduler may not have: all open jobs if
// it is a new one or the connection is.
func (c *Client) welcome(w *wire.Welcome) {
	now := time.Now()
	old, state := c.State(), c.stateOf(w, now)
	c.state.Store(state)
	if old.Serving != state.Serving {
		c.log.Info("executors", zap.String("model", c.cfg.Model), zap.Int("serving", state.Serving),
			zap.Int("max_model_len", state.MaxModelLen), zap.Int("prefix_cache_tokens", state.NumBlocks*state.BlockTokens))
	}
	c.mu.Lock()
	again := !c.connected || w.Epoch != c.epoch
	c.epoch, c.connected = w.Epoch, true
	var missing []*wire.Submit
	for _, j := range c.open {
		if again || !j.sent {
			j.sent = true
			missing = append(missing, j.message(now))
		}
	}
	if state.Serving > 0 {
		c.markReady()
	}
	c.mu.Unlock()
	if again {
		c.log.Info("connected to the scheduler", zap.Uint64("epoch", w.Epoch), zap.Int("jobs_submitted_again", len(missing)))
		c.hello() // it may know nothing of this client, and takes no Submit from a stranger
	}
	slices.SortFunc(missing, func(a, b *wire.Submit) int { return cmp.Compare(a.Job, b.Job) })
	for _, msg := range missing {
		c.resend(msg)
	}
}

// resend sends a Submit of a job that may have ended or been renamed since.
func (c *Client) resend(msg *wire.Submit) {
	c.mu.Lock()
	j := c.open[msg.Job]
	c.mu.Unlock()
	if j != nil {
		c.send(j, msg)
	}
}

// markReady closes ready once; the caller holds mu.
func (c *Client) markReady() {
	select {
	case <-c.ready:
	default:
		close(c.ready)
	}
}

// stateOf digests a Welcome. Limits stay known while no executor is alive.
func (c *Client) stateOf(w *wire.Welcome, now time.Time) *State {
	old := c.State()
	s := &State{Welcome: *w, Heard: now, MaxModelLen: old.MaxModelLen, VocabSize: old.VocabSize, BlockTokens: old.BlockTokens, NumBlocks: old.NumBlocks}
	for _, e := range w.Executors {
		if e.Model != c.cfg.Model {
			continue
		}
		if s.Serving == 0 {
			s.MaxModelLen, s.VocabSize, s.NumBlocks = 0, 0, 0
		}
		s.Serving++
		s.MaxModelLen = max(s.MaxModelLen, e.MaxModelLen)
		s.VocabSize = max(s.VocabSize, e.VocabSize)
		s.BlockTokens = e.BlockTokens
		s.NumBlocks += e.NumBlocks
	}
	return s
}
