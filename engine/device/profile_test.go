package device

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/executor/profile"
	"github.com/prefillonly/prefillonly/engine/wire"
	"go.uber.org/zap"
)

func TestApplyProfile(t *testing.T) {
	info := wire.ExecutorInfo{Device: "cpu", Fingerprint: "f", Model: "m"}
	o := Options{CacheDir: t.TempDir(), Log: zap.NewNop()}
	if err := applyProfile(o, &info); err != nil || info.CostToken != 0 {
		t.Fatalf("without a profile: %v, %+v", err, info)
	}
	path := profile.Path(o.CacheDir, info)
	stored := profile.File{Device: "cpu", Fingerprint: "f", Model: "m", Fit: profile.Fit{Base: 1, Token: 2, Pair: 3}}
	if err := profile.Save(path, stored); err != nil {
		t.Fatal(err)
	}
	if err := applyProfile(Options{Log: zap.NewNop()}, &info); err != nil || info.CostToken != 0 {
		t.Errorf("without a cache directory: %v, %+v", err, info)
	}
	if err := applyProfile(o, &info); err != nil || info.CostToken != 2 || info.CostPair != 3 {
		t.Errorf("the stored profile: %v, %+v", err, info)
	}

	o.Profile = filepath.Join(t.TempDir(), "none.json")
	if err := applyProfile(o, &info); CauseOf(err) != Configuration {
		t.Errorf("a named profile that is missing: %v", err)
	}
	o.Profile = path
	info.Fingerprint = "another"
	if err := applyProfile(o, &info); err == nil || !strings.Contains(err.Error(), "another") {
		t.Errorf("a named profile of another model: %v", err)
	}
}
