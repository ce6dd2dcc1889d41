package main

import (
	"testing"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/simt"
)

// TestGatherBytes: memory to gather blocks is set aside where attention does not read them in place.
func TestGatherBytes(t *testing.T) {
	cfg := config.Default()
	checkpoint, err := weights.ReadConfig(demoDir(t))
	if err != nil {
		t.Fatal(err)
	}
	const block = 1 << 20
	layers := int64(checkpoint.NumHiddenLayers)
	for name, c := range map[string]struct {
		inPlace bool
		gpus    int
		longest int64
		want    int64
	}{
		"in place":    {true, 1, 640, 0},
		"gathered":    {false, 1, 640, block / layers * (640/int64(cfg.BlockSize) + 1)},
		"two GPUs":    {true, 2, 640, block / layers * (640/int64(cfg.BlockSize) + 1)},
		"the model's": {false, 1, 0, block / layers * (int64(checkpoint.MaxPositionEmbeddings)/int64(cfg.BlockSize) + 1)},
	} {
		var devices []*cuda.Backend
		for range c.gpus {
			device := simt.New()
			device.InPlace = c.inPlace
			b := cuda.New(device)
			defer b.Close()
			devices = append(devices, b)
		}
		cfg.MaxModelLen = config.Length(c.longest)
		if got, err := gatherBytes(checkpoint, &cfg, devices, block); err != nil || got != c.want {
			t.Errorf("%s: %d bytes, %v, want %d", name, got, err, c.want)
		}
	}
}
