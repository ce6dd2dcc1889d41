//go:build cuda

package model

import (
	"errors"
	"runtime"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/driver"
)

// openGPU is a backend on the first GPU. The test stays on its thread, to which the context belongs.
func openGPU(t *testing.T) (cuda.Device, *cuda.Backend) {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	device, err := driver.Open(0, driver.Options{})
	if errors.Is(err, driver.ErrNoDevice) {
		t.Skipf("not measured: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	b := cuda.New(device)
	t.Cleanup(b.Close)
	return device, b
}

// TestGPUNoWorseThanTransformers is TestCPUNoWorseThanTransformers on the first GPU.
func TestGPUNoWorseThanTransformers(t *testing.T) {
	for _, name := range append(slices.DeleteFunc(append(slices.Clone(goldenModels), fp8Models...), isMixture), realShape) {
		t.Run(name, func(t *testing.T) {
			device, b := openGPU(t)
			file := "golden.json"
			if slices.Contains(fp8Models, name) && device.FP8() == cuda.NoFP8 {
				file = "weights_only.json"
			}
			compareOnGPU(t, newModel(t, name, b, Options{}), readGoldenFile(t, name, file), 1)
		})
	}
}

// TestGPUInt8AboutTransformers is TestInt8CPUAboutTransformers on the first GPU.
func TestGPUInt8AboutTransformers(t *testing.T) {
	for _, name := range int8Models {
		t.Run(name, func(t *testing.T) {
			_, b := openGPU(t)
			compareOnGPU(t, newModel(t, name, b, Options{}), readGolden(t, name), 1.5)
			compareOnGPU(t, newWeightOnly(t, name, b, Options{}), readGoldenFile(t, name, "weights_only.json"), 1.5)
		})
	}
}

// compareOnGPU allows m to be so many times as far off as transformers in bfloat16.
func compareOnGPU(t *testing.T, m *Model, g golden, times float64) {
	t.Helper()
	d := measure(t, m, g)
	t.Logf("worst %.4f (transformers in bfloat16 %.4f), mean %.4f (%.4f)", d.worst, g.Worst, d.mean(), g.Mean)
	if d.worst > times*g.Worst || d.mean() > times*g.Mean {
		t.Errorf("further off than %v times transformers in bfloat16", times)
	}
}
