package frontend

import (
	"net/http"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// TestDeviceMetrics: readings of GPUs come out under DCGM's names; what is unknown or said twice does
// not spoil the page.
func TestDeviceMetrics(t *testing.T) {
	f, _ := newFrontend(t, Config{}, nil)
	w := welcome(1)
	w.States = []wire.ExecutorState{
		{Name: "cpu-0", Readings: []wire.Reading{{Name: "DCGM_FI_DEV_GPU_TEMP", Value: 1}}}, // no GPU
		{Name: "cuda-0", GPU: "NVIDIA H200", UUID: "GPU-1", Readings: []wire.Reading{
			{Name: "DCGM_FI_DEV_GPU_TEMP", Value: 71}, {Name: "DCGM_FI_DEV_GPU_TEMP", Value: 72}, {Name: "unheard of", Value: 1},
			{Name: "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", Value: 3}, {Name: "DCGM_FI_DEV_XID_ERRORS", Value: 79},
		}},
		{Name: "cuda-1", GPU: "NVIDIA H200", UUID: "GPU-2", Readings: []wire.Reading{{Name: "DCGM_FI_DEV_GPU_TEMP", Value: 40}}},
	}
	f.pool.Deliver(w)
	response := do(f, http.MethodGet, "/metrics", "")
	text := response.Body.String()
	const first = `{UUID="GPU-1",executor="cuda-0",modelName="NVIDIA H200"}`
	for _, line := range []string{
		"DCGM_FI_DEV_GPU_TEMP" + first + " 71", `DCGM_FI_DEV_GPU_TEMP{UUID="GPU-2",executor="cuda-1",modelName="NVIDIA H200"} 40`,
		"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL" + first + " 3", "# TYPE DCGM_FI_DEV_ECC_DBE_VOL_TOTAL counter",
		"DCGM_FI_DEV_XID_ERRORS" + first + " 79", "vllm:num_requests_running",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("no line %s", line)
		}
	}
	if n := strings.Count(text, "\nDCGM_FI_DEV_GPU_TEMP{"); response.Code != http.StatusOK || n != 2 {
		t.Errorf("status %d, %d temperatures, want 2", response.Code, n)
	}
}

// TestReadyTellsLoading: a server that is not ready says how far it is.
func TestReadyTellsLoading(t *testing.T) {
	f, _ := newFrontend(t, Config{}, nil)
	f.pool.Deliver(&wire.Welcome{Epoch: 1, States: []wire.ExecutorState{
		{Name: "cuda-0", Loaded: 12_300_000_000, ToLoad: 131_000_000_000},
		{Name: "cuda-1"},
	}})
	response := do(f, http.MethodGet, "/ready", "")
	if text := response.Body.String(); response.Code != http.StatusServiceUnavailable || !strings.Contains(text, "cuda-0 has loaded 12.3 of 131.0 GB") || strings.Contains(text, "cuda-1") {
		t.Errorf("/ready: %d %s", response.Code, text)
	}
}
