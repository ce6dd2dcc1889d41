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

// peakResident is the most that the process has had resident, in bytes.
func peakResident(t testing.TB) int64 { return processMemory(t, "VmHWM:") }

// processMemory is a line of the process's status in bytes.
func processMemory(t testing.TB, key string) int64 {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if fields := strings.Fields(line); fields[0] == key {
			kB, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kB * 1024
		}
	}
	t.Fatalf("/proc/self/status has no %s", key)
	return 0
}

// config64MB is of a small model, but not too small to be measured.
func config64MB() weights.Config {
	config := qwen05B()
	config.VocabSize, config.HiddenSize, config.IntermediateSize = 1000, 512, 2048
	config.NumHiddenLayers, config.NumAttentionHeads = 8, 8
	return config
}

// checkpoint64MB writes one of config64MB.
func checkpoint64MB(t testing.TB, b kernels.Backend) *weights.Checkpoint {
	t.Helper()
	r := &recorder{Random: weights.Random{Seed: 1, Type: kernels.BF16}}
	m, err := New(config64MB(), r, b, Options{MaxLen: 16})
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
	dir := t.TempDir()
	if err := weights.WriteFile(filepath.Join(dir, "model.safetensors"), r.tensors); err != nil {
		t.Fatal(err)
	}
	checkpoint, err := weights.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return checkpoint
}

// TestLoadingHoldsWeightsOnce loads a checkpoint of 64 MB and checks that the peak is the packed
// weights and little else.
func TestLoadingHoldsWeightsOnce(t *testing.T) {
	b := cpuBackend(t, "")
	checkpoint := checkpoint64MB(t, b)
	runtime.GC()
	before := resetPeak(t)
	m, err := New(config64MB(), checkpoint, b, Options{MaxLen: 16})
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
