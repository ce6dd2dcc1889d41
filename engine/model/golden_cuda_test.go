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
	for _, name := range append(append(goldenModels, fp8Models...), realShape) {
		t.Run(name, func(t *testing.T) {
			device, b := openGPU(t)
			g := readGolden(t, name)
			if slices.Contains(fp8Models, name) && device.FP8() == cuda.NoFP8 {
				g = readGoldenFile(t, name, "weights_only.json")
			}
			d := measure(t, newModel(t, name, b, Options{}), g)
			t.Logf("worst %.4f (transformers in bfloat16 %.4f), mean %.4f (%.4f)", d.worst, g.Worst, d.mean(), g.Mean)
			if d.worst > g.Worst || d.mean() > g.Mean {
				t.Error("further off than transformers in bfloat16")
			}
		})
	}
}
