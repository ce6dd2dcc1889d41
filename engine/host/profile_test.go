package host

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/executor/profile"
)

func TestProfile(t *testing.T) {
	dirs := checkpoints(t)
	cache := t.TempDir()
	cost := func(cacheDir, named string) (int64, error) {
		t.Helper()
		o := testOptions()
		o.CacheDir = cacheDir
		h, err := Open(o, []Model{{Name: "m", Path: dirs["base"], Profile: named}})
		if err != nil {
			return 0, err
		}
		defer h.Close()
		return int64(h.Info().Models[0].Cost.Unit), nil
	}
	o := testOptions()
	h, err := Open(o, []Model{{Name: "m", Path: dirs["base"]}})
	if err != nil {
		t.Fatal(err)
	}
	info := h.Info()
	h.Close()
	if n, err := cost(cache, ""); err != nil || n != 0 {
		t.Fatalf("without a profile: %v, %d", err, n)
	}
	path := profile.Path(cache, info.Device, &info.Models[0])
	stored := profile.File{Device: info.Device, Fingerprint: info.Models[0].Fingerprint, Model: "m", Fit: profile.Fit{Base: 1, Unit: 2, Pair: 3}}
	if err := profile.Save(path, stored); err != nil {
		t.Fatal(err)
	}
	if n, err := cost("", ""); err != nil || n != 0 {
		t.Errorf("without a cache directory: %v, %d", err, n)
	}
	if n, err := cost(cache, ""); err != nil || n != 2 {
		t.Errorf("the stored profile: %v, %d", err, n)
	}
	var option *OptionError
	if _, err := cost(cache, filepath.Join(t.TempDir(), "none.json")); !errors.As(err, &option) {
		t.Errorf("a named profile that is missing: %v", err)
	}
	stored.Fingerprint = "another"
	if err := profile.Save(path, stored); err != nil {
		t.Fatal(err)
	}
	if _, err := cost(cache, path); !errors.As(err, &option) || !strings.Contains(err.Error(), "another") {
		t.Errorf("a named profile of another model: %v", err)
	}
	if n, err := cost(cache, ""); err != nil || n != 0 {
		t.Errorf("a stored profile of another model: %v, %d", err, n)
	}
}
