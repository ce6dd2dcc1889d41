package model

import (
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/kernels/cpu/cputest"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// cpuBackend makes a backend of one instruction set, "" for the best, with two threads.
func cpuBackend(t testing.TB, isa string) kernels.Backend { return cpuThreads(t, isa, 2) }

func cpuThreads(t testing.TB, isa string, threads int) kernels.Backend {
	t.Helper()
	return cputest.Open(t, cpu.Config{Threads: threads, ISA: isa})
}

// eachBackend runs the test on the reference backend, on the processor's best instruction set, and
// on two ranks of it.
func eachBackend(t *testing.T, test func(t *testing.T, b kernels.Backend)) {
	t.Run("ref", func(t *testing.T) { test(t, ref.New()) })
	t.Run("cpu", func(t *testing.T) { test(t, cpuBackend(t, "")) })
	t.Run("ranks", func(t *testing.T) { test(t, cpuRanks(t, 2)) })
}

// TestCPUNoWorseThanTransformers holds every instruction set against transformers' own bfloat16 run:
// neither the worst nor the mean deviation of the five likeliest tokens' logprobs may exceed its.
func TestCPUNoWorseThanTransformers(t *testing.T) {
	for _, isa := range cpu.ISAs {
		t.Run(isa, func(t *testing.T) {
			b := cpuBackend(t, isa)
			for _, name := range append(goldenModels, realShape) {
				g := readGolden(t, name)
				d := measure(t, newModel(t, name, b, Options{}), g)
				t.Logf("%s: worst %.4f (transformers %.4f), mean %.4f (%.4f)", name, d.worst, g.Worst, d.mean(), g.Mean)
				if d.worst > g.Worst || d.mean() > g.Mean {
					t.Errorf("%s: further off than transformers in bfloat16", name)
				}
			}
		})
	}
}
