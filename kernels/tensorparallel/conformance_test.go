package tensorparallel_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/kernels/cpu/cputest"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/cudatest"
	"github.com/prefillonly/prefillonly/kernels/cuda/nccl"
	"github.com/prefillonly/prefillonly/kernels/cuda/simt"
	"github.com/prefillonly/prefillonly/kernels/kerneltest"
	"github.com/prefillonly/prefillonly/kernels/ref"
	"github.com/prefillonly/prefillonly/kernels/tensorparallel"
)

type opener = func() (kernels.Rank, error)

func openRef() (kernels.Rank, error) { return ref.New().(kernels.Rank), nil }

func openCPU() (kernels.Rank, error) { return cpu.New(cpu.Config{Threads: 1}) }

// ranks opens n ranks that share memory.
func ranks(n int, open opener) kerneltest.Open {
	return func(t testing.TB) kernels.Backend {
		all := make([]opener, n)
		for i := range all {
			all[i] = open
		}
		b, err := tensorparallel.New(all, tensorparallel.JoinShared, tensorparallel.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		return b
	}
}

// The tolerances are those of the ranks alone.
var (
	float32Tolerance  = kerneltest.Tolerance{Max: 2e-5, RMS: 2e-6}
	bfloat16Tolerance = kerneltest.Tolerance{Max: 0.03, RMS: 0.006}
)

func TestConformanceOfReference(t *testing.T) {
	for _, n := range []int{2, 4} {
		t.Run(fmt.Sprint(n), func(t *testing.T) { kerneltest.Run(t, ranks(n, openRef), float32Tolerance) })
	}
}

// Weights in FP8 are cut with their scales.
func TestFP8(t *testing.T) {
	t.Run("reference", func(t *testing.T) { kerneltest.RunFP8(t, ranks(3, openRef), float32Tolerance, false) })
	t.Run("cpu", func(t *testing.T) {
		cputest.Need(t, "")
		kerneltest.RunFP8(t, ranks(2, openCPU), bfloat16Tolerance, false)
	})
}

// Weights in int8, too; each rank quantises its part of a row.
func TestInt8(t *testing.T) {
	t.Run("reference", func(t *testing.T) { kerneltest.RunInt8OfRanks(t, ranks(3, openRef), float32Tolerance, 3) })
	t.Run("cpu", func(t *testing.T) {
		cputest.Need(t, "")
		kerneltest.RunInt8OfRanks(t, ranks(2, openCPU), bfloat16Tolerance, 2)
	})
	t.Run("GPUs", func(t *testing.T) {
		kerneltest.RunInt8OfRanks(t, simulatedGPUs(t, 2, tensorparallel.Options{}), bfloat16Tolerance, 2)
	})
}

// Ranks that compute networks of convolutions do not do so together.
func TestRanksAreNoNetworks(t *testing.T) {
	b := ranks(2, openRef)(t)
	if _, err := kernels.NetworksOf(b); err == nil || !strings.Contains(err.Error(), "ref x2") {
		t.Errorf("error %v does not name the ranks", err)
	}
}

func TestConformanceOfCPU(t *testing.T) {
	cputest.Need(t, "")
	kerneltest.Run(t, ranks(2, openCPU), bfloat16Tolerance)
}

// simulatedGPUs are n simulated GPUs, which an NCCL of the host joins.
func simulatedGPUs(t *testing.T, n int, o tensorparallel.Options) kerneltest.Open {
	library := cudatest.BuildNCCL(t)
	return func(t testing.TB) kernels.Backend {
		devices, numbers := make([]*cuda.Backend, n), make([]int, n)
		all := make([]opener, n)
		for i := range all {
			all[i] = func() (kernels.Rank, error) {
				devices[i], numbers[i] = cuda.New(simt.New()), i
				return devices[i], nil
			}
		}
		b, err := tensorparallel.New(all, func([]kernels.Rank) (tensorparallel.Collective, error) {
			return nccl.Join(devices, numbers, library)
		}, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		return b
	}
}

// Partial sums are bfloat16, as between real GPUs.
func TestConformanceOfGPUs(t *testing.T) {
	kerneltest.Run(t, simulatedGPUs(t, 2, tensorparallel.Options{Partials: kernels.BF16}), bfloat16Tolerance)
}

func TestHostMemory(t *testing.T) {
	kerneltest.RunOffloader(t, simulatedGPUs(t, 2, tensorparallel.Options{}))
}

func FuzzAttention(f *testing.F) { kerneltest.FuzzAttention(f, ranks(2, openRef), float32Tolerance) }
func FuzzLinear(f *testing.F)    { kerneltest.FuzzLinear(f, ranks(3, openRef), float32Tolerance) }
