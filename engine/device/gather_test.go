package device

import (
	"testing"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/simt"
)

// TestGatherBytes: memory to gather blocks is set aside where attention does not read them in place.
func TestGatherBytes(t *testing.T) {
	o := demoModel(t, "cuda:0", "0")
	checkpoint, err := weights.ReadConfig(o.Models[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	const block = 1 << 20
	layers := int64(checkpoint.NumHiddenLayers)
	for name, c := range map[string]struct {
		inPlace bool
		gpus    int
		longest int
		want    int64
	}{
		"in place": {true, 1, 640, 0},
		"gathered": {false, 1, 640, block / layers * int64(640/64+1)},
		"two GPUs": {true, 2, 640, block / layers * int64(640/64+1)},
	} {
		var devices []*cuda.Backend
		for range c.gpus {
			device := simt.New()
			device.InPlace = c.inPlace
			b := cuda.New(device)
			defer b.Close()
			devices = append(devices, b)
		}
		limits := &wire.TokenLimits{MaxModelLen: c.longest, BlockTokens: 64}
		if got, err := gatherBytes(checkpoint, devices, limits, block); err != nil || got != c.want {
			t.Errorf("%s: %d bytes, %v, want %d", name, got, err, c.want)
		}
	}
}
