package model

import (
	"testing"

	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/executor/runnertest"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
)

// runner is a model as the executor's Runner.
type runner struct{ *Model }

func (r runner) Info() wire.ExecutorInfo {
	info := r.Model.Info()
	info.Model = "golden"
	return info
}

func (r runner) Begin(run *wire.Run) (executor.Pass, error) {
	p, err := r.Model.Begin(run)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// TestRunnerSuite runs what every executor.Runner must pass.
func TestRunnerSuite(t *testing.T) {
	eachBackend(t, func(t *testing.T, b kernels.Backend) {
		runnertest.Run(t, func(t *testing.T) executor.Runner {
			config, source := goldenSource(t, "qwen3")
			m, err := New(config, source, b, bitsOptions)
			if err == nil {
				err = m.NewPages(32)
			}
			if err != nil {
				t.Fatal(err)
			}
			return runner{m}
		})
	})
}
