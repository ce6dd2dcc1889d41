// Package modellist makes the models of a configuration ready to be served: it finds their files and names (of the
// paths that are given, of the Hugging Face hub by its local cache, and of the demo model, which it unpacks), tells which executor hosts which, and hands the list from a server to its processes.
package modellist

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/host"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/dirlock"
	"github.com/prefillonly/prefillonly/internal/hub"
)

// Error is a mistake in the list, or in all of its models.
type Error struct{ err error }

func (e *Error) Error() string { return e.err.Error() }
func (e *Error) Unwrap() error { return e.err }

// Prepare makes cfg.RuntimeDir a directory that exists, and resolves the models. remove deletes what was made for this
// process alone.
func Prepare(cfg *config.Config, fetch Fetch) (failed []error, remove func(), err error) {
	if cfg.RuntimeDir, remove, err = makeRuntimeDir(cfg); err != nil {
		return nil, nil, err
	}
	if failed, err = Resolve(cfg, fetch); err != nil {
		remove()
		return nil, nil, err
	}
	return failed, remove, nil
}

// makeRuntimeDir is the runtime directory, or a new private one that remove deletes.
func makeRuntimeDir(cfg *config.Config) (dir string, remove func(), err error) {
	if cfg.RuntimeDir != "" {
		return cfg.RuntimeDir, func() {}, os.MkdirAll(cfg.RuntimeDir, 0o700)
	}
	dir, lock, err := dirlock.Temp(os.TempDir(), "prefillonly_")
	if err != nil {
		return "", nil, fmt.Errorf("%w; give a writable --runtime-dir", err)
	}
	return dir, func() {
		_ = os.RemoveAll(dir)
		lock.Close()
	}, nil
}

// Resolve makes cfg.Models all models, with directories and names, beside pipelines their other networks, and beside merged networks their originals. What is wrong with one of several is in failed at
// its position, and no error while another can be served. The demo model is unpacked below cfg.RuntimeDir.
func Resolve(cfg *config.Config, fetch Fetch) (failed []error, err error) {
	list, incomplete := expandPipelines(cfg.Serving())
	if failed, err = resolveFiles(list, cfg.RuntimeDir, fetch); err != nil {
		return nil, err
	}
	for i := range list {
		failed[i] = cmp.Or(incomplete[i], failed[i])
	}
	list, failed = expandMerges(list, failed)
	for i := range list {
		if failed[i] == nil {
			failed[i] = cmp.Or(checkDecoder(&list[i]), checkAlphabet(&list[i]))
		}
	}
	if !slices.Contains(failed, nil) {
		if hub.IsPassing(failed[0]) {
			return nil, failed[0]
		}
		return nil, &Error{failed[0]}
	}
	if err := config.CheckModelNames(list); err != nil {
		return nil, &Error{err}
	}
	cfg.SetModels(list)
	return failed, nil
}

// Report logs what is wrong with models, as Resolve has found it.
func Report(cfg *config.Config, failed []error, log *zap.Logger) {
	for i, err := range failed {
		if err != nil {
			log.Error("model is not served", zap.String("model", cfg.Models[i].Names[0]), zap.Error(err))
		}
	}
}

// NameGPUs replaces the GPUs of the models' devices by what name makes of them.
func NameGPUs(cfg *config.Config, name func(devices string) (string, error)) (err error) {
	for i := range cfg.Models {
		m := &cfg.Models[i]
		if m.Devices == "" {
			continue
		}
		if m.Devices, err = name(m.Devices); err != nil {
			return fmt.Errorf("model %s: devices: %w", m.Names[0], err)
		}
	}
	return nil
}

// CheckHosted refuses a model that no executor hosts.
func CheckHosted(cfg *config.Config) error {
	devices := cfg.Devices()
	for i := range cfg.Models {
		m := &cfg.Models[i]
		if !slices.ContainsFunc(devices, func(d string) bool { return cfg.HostedOn(m, d) }) {
			return &Error{fmt.Errorf("model %s: invalid devices %s: executors are on %s", m.Names[0], m.Devices, strings.Join(devices, " and "))}
		}
	}
	return nil
}

// keeps are the words of the configuration for when weights may be dropped.
var keeps = map[string]wire.Keep{config.KeepAlways: wire.KeepAlways, config.KeepOnDemand: wire.KeepOnDemand, config.KeepIdle: wire.KeepIdle}

// Hosted are the models that an executor on cfg.Device runs.
func Hosted(cfg *config.Config) (list []host.Model) {
	for i := range cfg.Models {
		m := &cfg.Models[i]
		if !cfg.HostedOn(m, cfg.Device) {
			continue
		}
		list = append(list, host.Model{
			Name: m.Names[0], Path: m.Path, Keep: keeps[m.Keep.When], Idle: m.Keep.Idle, Profile: m.Profile,
			Prompts: host.Prompts{MaxLen: int(m.MaxModelLen), BlockTokens: cfg.BlockSize, CacheShare: m.CacheShare, Adapters: adapterList(m)},
			Frames:  frameHosting(m),
		})
	}
	return list
}

// adapterList are a model's adapters as a host has them.
func adapterList(m *config.Model) (list host.Adapters) {
	for _, a := range m.LoRAModules {
		list = list.With(a.Name, a.Path)
	}
	return list
}

// frameHosting say how a network is hosted.
func frameHosting(m *config.Model) host.Frames {
	f := host.Frames{WorkBytes: int64(m.WorkMemory), Best: m.Decoder == config.DecoderCTC}
	if len(m.Image.Size) == 2 {
		f.Height, f.Width = m.Image.Size[0], m.Image.Size[1]
	}
	return f
}

// Names are the first names of the models, as text; of many those of some.
func Names(cfg *config.Config) string {
	const most = 8
	var names []string
	for i := range cfg.Models {
		if i == most {
			names = append(names, fmt.Sprintf("and %d more", len(cfg.Models)-most))
			break
		}
		names = append(names, cfg.Models[i].Names[0])
	}
	return strings.Join(names, ", ")
}

// File is where the processes of a server find its models.
func File(cfg *config.Config) string { return filepath.Join(cfg.RuntimeDir, "models.yaml") }

// Write tells the processes of a server its models. One that reads meanwhile finds the old or the new list.
func Write(cfg *config.Config) error {
	file := File(cfg)
	if err := os.WriteFile(file+".new", []byte(config.ModelsYAML(cfg.Models)), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}
