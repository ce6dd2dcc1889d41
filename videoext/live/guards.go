package live

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/drift"
	"github.com/prefillonly/prefillonly/videoext/jobs"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/metrics"
)

// Merge is what a model has of a merge.
type Merge struct {
	Dir        string // of the merge
	Member     string // the model's name there
	Generation int
	Shared     int64  // bytes that the generation's models have once in place of several times
	Changed    bool   // the merge has changed the network: it is watched
	Original   string // the pool's name of the network as it was
	Watch      drift.Config
}

// Merges keeps what merges have made.
type Merges interface {
	// Revert has a model's original served in its place, and keeps why.
	Revert(m *Merge, why string) error
	// Note is told how a model does, for those who ask how its merge stands.
	Note(m *Merge, now drift.Figures)
}

// samplePatience is how long a frame waits for the original to look at it: a device that is never idle leaves it no time.
const samplePatience = time.Minute

// guards watch the networks that merges have changed. Their methods are safe for concurrent use.
type guards struct {
	merges Merges
	maker  *jobs.Maker
	log    *zap.Logger
	fell   func() // is called when streams are to be looked at by another network
	begun  time.Time

	reverting sync.Mutex // directories are changed one after the other
	mu        sync.Mutex
	of        map[string]*guard // guarded by mu; by model
}

// guard is of a model of a generation.
type guard struct {
	merge Merge

	mu      sync.Mutex
	core    *drift.Guard // guarded by mu; nil: the network is as it was
	samples uint64       // guarded by mu; of earlier generations
	reverts uint64       // guarded by mu
	warned  time.Time    // guarded by mu; when the log said that a sample failed
	fallen  bool         // guarded by mu; the directory could not be changed: streams are looked at by the original
}

// setGuards says which models there are. A model whose generation stays goes on being watched as it was.
func (g *guards) setGuards(models []Model) {
	g.mu.Lock()
	defer g.mu.Unlock()
	next := map[string]*guard{}
	for i := range models {
		m := models[i].Merge
		if m == nil {
			continue
		}
		name := models[i].Names[0]
		w := g.of[name]
		if w == nil || w.merge != *m {
			w = newGuard(*m, w)
		}
		next[name] = w
	}
	g.of = next
}

// newGuard goes on counting where another one of the model did.
func newGuard(m Merge, before *guard) *guard {
	w := &guard{merge: m}
	if m.Changed {
		w.core = drift.New(m.Watch, uint64(m.Generation))
	}
	if before != nil {
		before.mu.Lock()
		defer before.mu.Unlock()
		w.samples, w.reverts = before.samples, before.reverts
		if before.core != nil {
			w.samples += before.core.Figures().Samples
		}
	}
	return w
}

func (g *guards) findGuard(model string) *guard {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.of[model]
}

// chooseNetwork is what looks at frames in the place of a network: its original, if it has drifted and is served nevertheless.
func (g *guards) chooseNetwork(n *jobs.Network, missing error) (*jobs.Network, error) {
	if missing != nil {
		return nil, missing
	}
	w := g.findGuard(n.Model)
	if w == nil {
		return n, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.fallen {
		return n, nil
	}
	return w.original(n), nil
}

// original is the network as it was.
func (w *guard) original(n *jobs.Network) *jobs.Network {
	was := *n
	was.Model = w.merge.Original
	return &was
}

// stepGuard tells a guard what happened.
func (g *guards) stepGuard(w *guard, e drift.Event) []drift.Action {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.core == nil {
		return nil
	}
	return w.core.Step(time.Since(g.begun), e)
}

// compareLook has the original look at frames that a changed network has looked at, if it is their turn, and goes back to it where they agree too little.
func (g *guards) compareLook(ctx context.Context, by *look) {
	if by.network == nil {
		return
	}
	w := g.findGuard(by.network.Model)
	if w == nil {
		return
	}
	for i, frame := range by.frames {
		if by.answer.Why[i] != "" || len(g.stepGuard(w, drift.Looked{})) == 0 {
			continue
		}
		actions := g.stepGuard(w, g.lookAgain(ctx, w, by.network, frame, &by.answer.Findings[i]))
		w.mu.Lock()
		now := w.core.Figures()
		w.mu.Unlock()
		g.merges.Note(&w.merge, now)
		if len(actions) > 0 { // it is to be reverted
			g.revertNetwork(w, by.network.Model, now)
		}
	}
}

// lookAgain has the original look at a frame where its device is idle.
func (g *guards) lookAgain(ctx context.Context, w *guard, network *jobs.Network, frame *media.Frame, found *videoext.Findings) drift.Event {
	limited, stop := context.WithTimeout(ctx, samplePatience)
	defer stop()
	findings, why, _ := g.maker.Infer(limited, w.original(network), []*media.Frame{frame}, jobs.Terms{Arrived: time.Now(), User: w.merge.Original, Lowest: true})
	if why[0] != "" {
		if ctx.Err() == nil && w.warns() {
			g.log.Warn("the original has not looked at a frame of a merged network", zap.String("model", network.Model), zap.String("why", why[0]))
		}
		return drift.Lost{}
	}
	return drift.Compared{Agreement: drift.Agree(&findings[0], found)}
}

// warns says, once a minute, that it is time to say why samples fail.
func (w *guard) warns() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.warned) < time.Minute {
		return false
	}
	w.warned = time.Now()
	return true
}

// revertNetwork has a model's original served. Where that cannot be, streams at least are looked at by it, until another generation is there.
func (g *guards) revertNetwork(w *guard, model string, f drift.Figures) {
	why := fmt.Sprintf("F1 %.3f over the last %d frames that tell something, want %.3f: %d samples", f.Score, min(f.Telling, drift.Window), w.merge.Watch.Target, f.Samples)
	g.reverting.Lock()
	err := g.merges.Revert(&w.merge, why)
	g.reverting.Unlock()
	w.mu.Lock()
	w.reverts++
	w.fallen = err != nil
	w.mu.Unlock()
	fields := []zap.Field{zap.String("model", model), zap.String("why", why), zap.Int("generation", w.merge.Generation)}
	if err != nil {
		g.log.Error("a merged network has drifted, and its directory cannot be changed: streams are looked at by the original, and requests by the merged one; call prefillonly merge revert",
			append(fields, zap.String("original", w.merge.Original), zap.Error(err))...)
		g.fell()
		return
	}
	g.log.Warn("a merged network has drifted: its original is served again", fields...)
}

// listFigures are those of all models of merges.
func (g *guards) listFigures() (list []metrics.Merge) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(g.of)) {
		w := g.of[name]
		w.mu.Lock()
		m := metrics.Merge{Model: name, State: metrics.MergeOriginal, Shared: w.merge.Shared, Target: w.merge.Watch.Target, Samples: w.samples, Reverts: w.reverts, Score: 1}
		if w.core != nil {
			now := w.core.Figures()
			m.State, m.Score, m.Samples = metrics.MergeWatched, now.Score, w.samples+now.Samples
			if now.Evidence >= 1 {
				m.State = metrics.MergeDrifted
			}
		}
		w.mu.Unlock()
		list = append(list, m)
	}
	return list
}
