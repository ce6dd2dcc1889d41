package main

import (
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/device"
	"github.com/prefillonly/prefillonly/kernels/cuda/cudatest"
)

// TestLostGPUOfTwo: one executor has two GPUs. When either fails the other does not wait for it, the
// executor ends with the code that says so, and is started again on both; no request fails.
func TestLostGPUOfTwo(t *testing.T) {
	t.Setenv(device.NCCLEnv, cudatest.BuildNCCL(t))
	s := serveGPUs(t, "--tensor-parallel-size", "2")
	s.goesOn(1)
	for gpu := range 2 {
		s.strike(faultLost, gpu)
		s.until("the restart", func() bool { return strings.Count(s.logged(), "exit status 75") == gpu+1 })
		s.goesOn(1)
	}
	if text := s.logged(); !strings.Contains(text, "cuda:0 (simulated) + cuda:1 (simulated)") || !strings.Contains(text, "uncorrectable ECC error (CUDA error 214)") {
		t.Error("the log tells neither of the two GPUs nor of the cause")
	}
	s.wantRefused()
}
