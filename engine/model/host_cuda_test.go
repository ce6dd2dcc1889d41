//go:build cuda

package model

import (
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// TestGPUHostMemory holds the first GPU's copies to what host memory promises.
func TestGPUHostMemory(t *testing.T) {
	for name, test := range map[string]func(*testing.T, kernels.Backend){"loaded": loadedPages, "dropped": droppedLoads, "index": indexAndPages, "residuals": residualsInHostMemory} {
		t.Run(name, func(t *testing.T) {
			_, b := openGPU(t)
			test(t, b)
		})
	}
}
