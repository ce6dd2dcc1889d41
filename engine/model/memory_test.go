package model

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
)

// resetPeak makes the resident memory of now the process's peak, and returns it.
func resetPeak(t testing.TB) int64 {
	t.Helper()
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Skipf("needs Linux's resettable peak of resident memory: %v", err)
	}
	return peakResident(t)
}

// peakResident is the process's VmHWM in bytes.
func peakResident(t testing.TB) int64 {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if fields := strings.Fields(line); fields[0] == "VmHWM:" {
			kB, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kB * 1024
		}
	}
	t.Fatal("/proc/self/status has no VmHWM")
	return 0
}

// TestLoadingHoldsWeightsOnce loads a checkpoint of 64 MB and checks that the peak is the packed
// weights and little else.
func TestLoadingHoldsWeightsOnce(t *testing.T) {
	b := cpuBackend(t, "")
	config := qwen05B()
	config.VocabSize, config.HiddenSize, config.IntermediateSize = 1000, 512, 2048
	config.NumHiddenLayers, config.NumAttentionHeads = 8, 8
	dir := t.TempDir()
	writeSource := func() {
		r := &recorder{Random: weights.Random{Seed: 1, Type: kernels.BF16}}
		m, err := New(config, r, b, Options{MaxLen: 16})
		if err != nil {
			t.Fatal(err)
		}
		m.Close()
		if err := weights.WriteFile(filepath.Join(dir, "model.safetensors"), r.tensors); err != nil {
			t.Fatal(err)
		}
	}
	writeSource()
	runtime.GC()
	before := resetPeak(t)
	checkpoint, err := weights.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer checkpoint.Close()
	m, err := New(config, checkpoint, b, Options{MaxLen: 16})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	grown, packed := peakResident(t)-before, m.Plan().Weights
	t.Logf("the peak grew by %d bytes for %d bytes of packed weights", grown, packed)
	if grown < packed/2 || grown > packed+packed/4 {
		t.Errorf("the peak grew by %d bytes for %d bytes of packed weights, want at most a quarter more", grown, packed)
	}
}
