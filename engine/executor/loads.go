package executor

import (
	"fmt"
	"math"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// load is a wire.Load on its way.
type load struct {
	*wire.Load
	count int           // of its pieces that are there
	took  time.Duration // inside the runner so far
}

// loadPiece loads the next piece of weights and answers for a load that has come to its end. The passes
// are then owed as much time as it took, so that while there are both each has half of the device. It fails
// when the device is lost.
func (e *executor) loadPiece() error {
	l := e.loads[0]
	start := time.Now()
	err := e.guardPanic(func() error { return e.loadNext(l) }, zap.String("model", l.Model))
	e.owed = time.Since(start)
	l.took += e.owed
	if DeviceLost(err) || err == nil && l.count < len(l.Weights) {
		return err
	}
	answer := &wire.Loaded{Serial: l.Serial, Count: l.count, Took: l.took}
	if err != nil {
		answer.Err = e.explainError(err)
	}
	e.loads = e.loads[1:]
	e.sendMessage(answer)
	if e.hasLoadNews() {
		e.tell()
	}
	return nil
}

// hasLoadNews says that a load has changed what the scheduler should know: that models fail, share other weights or were
// measured, or how fast weights are loaded.
func (e *executor) hasLoadNews() bool {
	now := e.runner.Info()
	alike := func(a, b wire.ModelInfo) bool {
		return a.Reason == b.Reason && a.Cost == b.Cost && slices.Equal(a.Weights, b.Weights)
	}
	return !slices.EqualFunc(now.Models, e.info.Models, alike) || math.Abs(now.LoadRate-e.info.LoadRate) > e.info.LoadRate/4
}

func (e *executor) loadNext(l *load) error {
	if l.count == len(l.Weights) {
		return nil // there are none
	}
	weight := l.Weights[l.count]
	if int(weight) >= len(e.info.Weights) {
		return fmt.Errorf("model %s is to be loaded with piece %d of weights, of %d", l.Model, weight, len(e.info.Weights))
	}
	done, err := e.runner.Load(l.Model, weight)
	if done && err == nil {
		l.count++
	}
	return err
}

// dropWeights frees weights. Those that a pass needs stay: that the scheduler wants to be rid of them is a defect,
// which it may learn of by what is resident.
func (e *executor) dropWeights(weights []uint32) {
	used := e.usedWeights()
	var free []uint32
	for _, w := range weights {
		if model := used[w]; model != "" || int(w) >= len(e.info.Weights) {
			e.cfg.Log.Error("weights to be dropped are in use, or there are none", zap.Uint32("piece", w), zap.String("model", model))
		} else {
			free = append(free, w)
		}
	}
	if err := e.guardPanic(func() error { e.runner.Drop(free); return nil }); err != nil || len(free) < len(weights) {
		e.tell()
	}
}

// usedWeights are the weights that passes need, with the name of a model of theirs.
func (e *executor) usedWeights() map[uint32]string {
	of := map[string][]uint32{}
	for i := range e.info.Models {
		of[e.info.Models[i].Name] = e.info.Models[i].Weights
	}
	used := map[uint32]string{}
	for _, t := range append(e.allPasses(), e.preparing.list...) {
		for _, w := range of[t.run.Model] {
			used[w] = t.run.Model
		}
	}
	return used
}
