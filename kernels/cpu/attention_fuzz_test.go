//go:build cgo && linux && amd64

package cpu_test

import (
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/kerneltest"
)

// openBest opens the machine's best instruction set.
func openBest(t testing.TB) kernels.Backend { return open("", 2)(t) }

func FuzzAttention(f *testing.F) { kerneltest.FuzzAttention(f, openBest, tolerance) }
func FuzzLinear(f *testing.F)    { kerneltest.FuzzLinear(f, openBest, tolerance) }

func BenchmarkKernels(b *testing.B) { kerneltest.Bench(b, openBest) }
