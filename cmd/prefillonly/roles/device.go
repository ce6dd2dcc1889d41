package roles

import (
	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/device"
	"github.com/prefillonly/prefillonly/engine/dnn"
	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/modellist"
)

// Opener makes the runner of the configured device.
type Opener = func(cfg *config.Config, blobs dnn.Blobs, v *Vitals, log *zap.Logger) (device.Runner, error)

// OpenRunner is the Opener of this machine's devices.
func OpenRunner(cfg *config.Config, blobs dnn.Blobs, v *Vitals, log *zap.Logger) (device.Runner, error) {
	o := DeviceOptions(cfg, log)
	o.Blobs = blobs
	o.Models = modellist.Hosted(cfg)
	o.Partial = len(o.Models) < len(cfg.Models)
	o.Loading = func(model string, done, total int64) {
		sayAlive()
		v.Loading(model, done, total)
	}
	return device.Open(o)
}

// DeviceOptions are the parameters that say which device to open, and how.
func DeviceOptions(cfg *config.Config, log *zap.Logger) device.Options {
	dir, err := cli.CacheDir()
	if err != nil {
		dir = ""
	}
	return device.Options{
		Device: cfg.Device, GPUs: cfg.GPUs(), Ranks: cfg.Ranks, Threads: cfg.Threads, Access: device.CUDA,
		Memory: int64(cfg.Memory), PrefillChunk: cfg.PrefillChunk, GPUMemory: cfg.GPUMemory,
		CacheBytes: int64(cfg.CacheBytes), CacheShare: cfg.CacheShare, Offloading: cfg.Offloading,
		Attention: cfg.Attention, CacheDir: dir, Log: log,
	}
}

// NameGPUs replaces the GPUs of --device by their UUIDs, and those of the models' devices; cuda stands for every GPU
// if all is set.
func NameGPUs(cfg *config.Config, all bool, log *zap.Logger) error {
	named, err := device.NameGPUs(DeviceOptions(cfg, log), all)
	if err != nil {
		return err
	}
	cfg.Device = named
	return NameModelGPUs(cfg, log)
}

// NameModelGPUs replaces the GPUs of the models' devices by their UUIDs.
func NameModelGPUs(cfg *config.Config, log *zap.Logger) error {
	return modellist.NameGPUs(cfg, func(devices string) (string, error) {
		own := *cfg
		own.Device = devices
		return device.NameGPUs(DeviceOptions(&own, log), true)
	})
}
