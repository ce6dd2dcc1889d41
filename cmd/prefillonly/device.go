package main

import (
	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/device"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/internal/config"
)

// gpuAccess is how this process reaches GPUs.
var gpuAccess = device.CUDA

// openRunner makes the runner of the configured device.
var openRunner = func(cfg *config.Config, v *vitals, log *zap.Logger) (executor.Runner, error) {
	o := deviceOptions(cfg, log)
	o.Loading = func() (func(done, total int64), func()) {
		progress := newLoading(v, log)
		return func(done, total int64) {
			sayAlive()
			progress.note(done, total)
		}, progress.end
	}
	o.Working = sayAlive
	return device.Open(o)
}

// deviceOptions are the parameters that say which device to open and what to load onto it.
func deviceOptions(cfg *config.Config, log *zap.Logger) device.Options {
	dir, err := cacheDir()
	if err != nil {
		dir = ""
	}
	return device.Options{
		Device: cfg.Device, GPUs: cfg.GPUs(), Ranks: cfg.Ranks, Threads: cfg.Threads, Access: gpuAccess,
		Model: cfg.Model, Name: cfg.ServedModelName[0], MaxModelLen: int(cfg.MaxModelLen), BlockSize: cfg.BlockSize, PrefillChunk: cfg.PrefillChunk,
		GPUMemory: cfg.GPUMemory, CacheBytes: int64(cfg.CacheBytes), CacheShare: cfg.CacheShare, Offloading: cfg.Offloading,
		Attention: cfg.Attention, Profile: cfg.Profile, CacheDir: dir, Log: log,
	}
}

// nameGPUs replaces the GPUs of --device by their UUIDs; cuda stands for every GPU if all is set.
func nameGPUs(cfg *config.Config, all bool, log *zap.Logger) error {
	named, err := device.NameGPUs(deviceOptions(cfg, log), all)
	if err == nil {
		cfg.Device = named
	}
	return err
}
