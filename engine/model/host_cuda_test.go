//go:build cuda

package model

import (
	"errors"
	"runtime"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda"
)

// TestGPUHostMemory holds the first GPU's copies to what host memory promises.
func TestGPUHostMemory(t *testing.T) {
	for name, test := range map[string]func(*testing.T, kernels.Backend){"loaded": loadedPages, "dropped": droppedLoads, "index": indexAndPages, "residuals": residualsInHostMemory} {
		t.Run(name, func(t *testing.T) {
			runtime.LockOSThread() // a CUDA context belongs to a thread
			defer runtime.UnlockOSThread()
			device, err := cuda.Open(0, cuda.Options{})
			if errors.Is(err, cuda.ErrNoDevice) {
				t.Skipf("not measured: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			b := cuda.New(device)
			t.Cleanup(b.Close)
			test(t, b)
		})
	}
}
