package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/executor/profile"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/config"
	"go.uber.org/zap"
)

func TestApplyProfile(t *testing.T) {
	info := wire.ExecutorInfo{Device: "cpu", Fingerprint: "f", Model: "m"}
	t.Setenv("CACHE_DIRECTORY", t.TempDir())
	cfg := config.Default()
	if err := applyProfile(&cfg, &info, zap.NewNop()); err != nil || info.CostToken != 0 {
		t.Fatalf("without a profile: %v, %+v", err, info)
	}
	path, err := defaultProfile(info)
	if err != nil {
		t.Fatal(err)
	}
	stored := profile.File{Device: "cpu", Fingerprint: "f", Model: "m", Fit: profile.Fit{Base: 1, Token: 2, Pair: 3}}
	if err := profile.Save(path, stored); err != nil {
		t.Fatal(err)
	}
	if err := applyProfile(&cfg, &info, zap.NewNop()); err != nil || info.CostToken != 2 || info.CostPair != 3 {
		t.Errorf("the stored profile: %v, %+v", err, info)
	}

	cfg.Profile = filepath.Join(t.TempDir(), "none.json")
	if err := applyProfile(&cfg, &info, zap.NewNop()); err == nil || exitCode(err) != exitConfig {
		t.Errorf("a named profile that is missing: %v", err)
	}
	cfg.Profile = path
	info.Fingerprint = "another"
	if err := applyProfile(&cfg, &info, zap.NewNop()); err == nil || !strings.Contains(err.Error(), "another") {
		t.Errorf("a named profile of another model: %v", err)
	}
}
