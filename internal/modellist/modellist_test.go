package modellist

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine/demo"
	"github.com/prefillonly/prefillonly/engine/host"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/config"
)

// prepared is a configuration of these models whose directories are there.
func prepared(t *testing.T, list ...config.Model) (*config.Config, []error, error) {
	t.Helper()
	cfg := config.Default()
	cfg.Models, cfg.RuntimeDir = list, t.TempDir()
	failed, err := Resolve(&cfg, Cached)
	return &cfg, failed, err
}

func demoDir(t *testing.T) string {
	t.Helper()
	dir, err := demo.Extract(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestResolve: one broken model of two is told of, all are an error, and so are equal names.
func TestResolve(t *testing.T) {
	dir := demoDir(t)
	cfg, failed, err := prepared(t, config.Model{Path: "/no/a"}, config.Model{Path: dir})
	if err != nil || failed[0] == nil || failed[1] != nil || cfg.Models[0].Names[0] != "a" || cfg.Models[1].Names[0] != filepath.Base(dir) {
		t.Errorf("%v, %q, %+v", err, failed, cfg.Models)
	}
	var mistake *Error
	if _, _, err := prepared(t, config.Model{Path: "/no/a"}, config.Model{Path: "/no/b"}); !errors.As(err, &mistake) || !strings.Contains(err.Error(), "/no/a") {
		t.Errorf("two broken models: %v", err)
	}
	if _, _, err := prepared(t, config.Model{Path: dir}, config.Model{Path: dir}); !errors.As(err, &mistake) || !strings.Contains(err.Error(), "NAME=PATH") {
		t.Errorf("one directory twice: %v", err)
	}
	cfg, _, err = prepared(t)
	if err != nil || len(cfg.Models) != 1 || cfg.Models[0].Names[0] != demo.Name || cfg.Models[0].Keep.When != config.KeepAlways {
		t.Errorf("without a model: %v, %+v", err, cfg.Models)
	}
}

// TestHosted: each executor has its models, with what the configuration says of them.
func TestHosted(t *testing.T) {
	dir := demoDir(t)
	cfg, _, err := prepared(t, config.Model{Names: []string{"a", "x"}, Path: dir, Devices: "cuda:0", Keep: config.Keep{When: config.KeepIdle, Idle: time.Minute}, MaxModelLen: 99, CacheShare: 0.5},
		config.Model{Names: []string{"b"}, Path: dir, Keep: config.Keep{When: config.KeepAlways}, WorkMemory: 1 << 20, Image: config.Image{Size: []int{416, 640}}})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Device = "cuda:0,1"
	if err := NameGPUs(cfg, func(devices string) (string, error) { return strings.Replace(devices, "0", "1", 1), nil }); err != nil {
		t.Fatal(err)
	}
	if err := CheckHosted(cfg); err != nil {
		t.Error(err)
	}
	a := host.Model{Name: "a", Path: dir, Prompts: host.Prompts{MaxLen: 99, BlockTokens: 64, CacheShare: 0.5}, Keep: wire.KeepIdle, Idle: time.Minute}
	b := host.Model{
		Name: "b", Path: dir, Prompts: host.Prompts{BlockTokens: 64}, Keep: wire.KeepAlways,
		Frames: host.Frames{Height: 416, Width: 640, WorkBytes: 1 << 20},
	}
	for device, want := range map[string][]host.Model{"cuda:0": {b}, "cuda:1": {a, b}} {
		own := *cfg
		own.Device = device
		if got := Hosted(&own); !reflect.DeepEqual(got, want) {
			t.Errorf("on %s: %+v, want %+v", device, got, want)
		}
	}
	cfg.Device = "cuda:0"
	if err := CheckHosted(cfg); err == nil || err.Error() != "model a: invalid devices cuda:1: executors are on cuda:0" {
		t.Errorf("a model for no executor: %v", err)
	}
}

// TestWrite: what is written is read as it was, and completely whenever it is read.
func TestWrite(t *testing.T) {
	cfg, _, err := prepared(t, config.Model{Names: []string{"a"}, Path: demoDir(t)})
	if err != nil {
		t.Fatal(err)
	}
	reading := make(chan error)
	if err := Write(cfg); err != nil {
		t.Fatal(err)
	}
	go func() {
		for range 200 {
			l, err := config.Load(File(cfg), nil, nil)
			if err == nil && !reflect.DeepEqual(l.Models, cfg.Models) {
				err = fmt.Errorf("read %+v", l.Models)
			}
			if err != nil {
				reading <- err
				return
			}
		}
		reading <- nil
	}()
	for {
		select {
		case err := <-reading:
			if err != nil {
				t.Error(err)
			}
			return
		default:
			if err := Write(cfg); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestNames(t *testing.T) {
	cfg := config.Default()
	for i := range 10 {
		cfg.Models = append(cfg.Models, config.Model{Names: []string{fmt.Sprint("m", i), "x"}})
	}
	if got := Names(&cfg); got != "m0, m1, m2, m3, m4, m5, m6, m7, and 2 more" {
		t.Error(got)
	}
}
