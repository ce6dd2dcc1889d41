//go:build cgo && linux && amd64

package cpu_test

import (
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/kernels/cpu/cputest"
	"github.com/prefillonly/prefillonly/kernels/kerneltest"
	"github.com/prefillonly/prefillonly/kernels/networktest"
)

// tolerance of bfloat16 activations: half a unit in their last place is 2^-9 of a value.
var tolerance = kerneltest.Tolerance{Max: 0.03, RMS: 0.006}

func open(isa string, threads int) kerneltest.Open {
	return func(t testing.TB) kernels.Backend {
		return cputest.Open(t, cpu.Config{Threads: threads, ISA: isa})
	}
}

// sets are all instruction sets by their names, and what a machine takes by itself, which may be parts of two.
var sets = func() map[string]string {
	all := map[string]string{"own choice": ""}
	for _, isa := range cpu.ISAs {
		all[isa] = isa
	}
	return all
}()

func TestConformance(t *testing.T) {
	for name, isa := range sets {
		t.Run(name, func(t *testing.T) { kerneltest.Run(t, open(isa, 2), tolerance) })
	}
}

func TestEncoders(t *testing.T) {
	for name, isa := range sets {
		t.Run(name, func(t *testing.T) { kerneltest.RunEncoders(t, open(isa, 2), tolerance) })
	}
}

func TestMixtures(t *testing.T) { kerneltest.RunMixtures(t, open("", 2)) }

func TestFP8(t *testing.T) {
	for _, isa := range cpu.ISAs {
		t.Run(isa, func(t *testing.T) { kerneltest.RunFP8(t, open(isa, 2), tolerance, false) })
	}
}

func TestInt8(t *testing.T) {
	for _, isa := range cpu.ISAs {
		t.Run(isa, func(t *testing.T) { kerneltest.RunInt8(t, open(isa, 2), tolerance) })
	}
}

func TestNetworks(t *testing.T) {
	for _, isa := range []string{"avx2", "avx512"} {
		t.Run(isa, func(t *testing.T) { networktest.Run(t, open(isa, 3)) })
	}
}

func TestThreadsDoNotChangeBitsOfNetworks(t *testing.T) {
	for _, isa := range []string{"avx2", "avx512"} {
		t.Run(isa, func(t *testing.T) { networktest.SameBits(t, open(isa, 1), open(isa, 5)) })
	}
}

func FuzzNetworks(f *testing.F) { networktest.Fuzz(f, open("", 2)) }

func TestThreadsDoNotChangeBits(t *testing.T) {
	for _, isa := range cpu.ISAs {
		t.Run(isa, func(t *testing.T) {
			kerneltest.SameBits(t, open(isa, 1), open(isa, 5))
			kerneltest.SameBitsOfEncoders(t, open(isa, 1), open(isa, 5))
			kerneltest.SameBitsOfInt8(t, open(isa, 1), open(isa, 5))
		})
	}
}
