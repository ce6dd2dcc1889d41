package runnertest

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// Join makes one runner of two, whose models have other names: passes of the second, whose work memory is its
// own, are nested into those of the first. Neither runner saves pages.
func Join(tokens executor.Runner, tensors *Perceptrons) executor.Runner {
	return joined{Blobs: tensors.Blobs, tokens: tokens, tensors: tensors, from: uint32(len(tokens.Info().Weights))}
}

type joined struct {
	Blobs
	tokens  executor.Runner
	tensors *Perceptrons
	from    uint32 // pieces of weights from here on are the second's
}

func (j joined) Info() wire.ExecutorInfo {
	info, second := j.tokens.Info(), j.tensors.Info()
	info.Weights = append(info.Weights, second.Weights...)
	for _, m := range second.Models {
		m.Weights = slices.Clone(m.Weights)
		for i := range m.Weights {
			m.Weights[i] += j.from
		}
		info.Models = append(info.Models, m)
	}
	info.Nests = true
	return info
}

func (j joined) Load(model string, weight uint32) (done bool, err error) {
	if weight < j.from {
		return j.tokens.Load(model, weight)
	}
	return j.tensors.Load(model, weight-j.from)
}

func (j joined) Drop(weights []uint32) {
	for _, w := range weights {
		if w < j.from {
			j.tokens.Drop([]uint32{w})
		} else {
			j.tensors.Drop([]uint32{w - j.from})
		}
	}
}

func (j joined) Begin(run *wire.Run) (executor.Pass, error) {
	if _, ok := j.tensors.models[run.Model]; ok {
		return j.tensors.Begin(run)
	}
	return j.tokens.Begin(run)
}

func (j joined) Close() {
	j.tokens.Close()
	j.tensors.Close()
}
