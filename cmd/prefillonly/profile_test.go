package main

import (
	"testing"

	"github.com/prefillonly/prefillonly/engine/executor/profile"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/config"
	"go.uber.org/zap"
)

// TestDefaultProfile: the place where `prefillonly profile` stores is the one where executors look.
func TestDefaultProfile(t *testing.T) {
	info := wire.ExecutorInfo{Device: "cpu", Fingerprint: "f"}
	dir := t.TempDir()
	t.Setenv("CACHE_DIRECTORY", dir)
	cfg := config.Default()
	cfg.ServedModelName = []string{"m"}
	path, err := defaultProfile(info)
	if o := deviceOptions(&cfg, zap.NewNop()); err != nil || o.CacheDir != dir || path != profile.Path(dir, info) {
		t.Errorf("stored in %s (%v), looked for below %s", path, err, o.CacheDir)
	}
}
