package main

import (
	"testing"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/cmd/prefillonly/roles"
	"github.com/prefillonly/prefillonly/engine/executor/profile"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/config"
)

// TestDefaultProfile: the place where `prefillonly profile` stores is the one where executors look.
func TestDefaultProfile(t *testing.T) {
	model := &wire.ModelInfo{Name: "m", Fingerprint: "f"}
	dir := t.TempDir()
	t.Setenv("CACHE_DIRECTORY", dir)
	cfg := config.Default()
	path, err := defaultProfile("cpu", model)
	if o := roles.DeviceOptions(&cfg, zap.NewNop()); err != nil || o.CacheDir != dir || path != profile.Path(dir, "cpu", model) {
		t.Errorf("stored in %s (%v), looked for below %s", path, err, o.CacheDir)
	}
}
