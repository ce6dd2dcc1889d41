package config

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/prefillonly/prefillonly/engine/toolcalls"
	"github.com/prefillonly/prefillonly/internal/reach"
	"github.com/prefillonly/prefillonly/scheduler"
)

// Validate checks what can be checked without opening the model, and names the first parameter that
// is out of range and what it may be.
func (l *Loaded) Validate() error {
	for i := range Params {
		if p := &Params[i]; p.Choices != nil && !slices.Contains(p.Choices, showValue(p.field(&l.Config))) {
			return l.outOfRange(p, strings.Join(p.Choices[:len(p.Choices)-1], ", ")+" or "+p.Choices[len(p.Choices)-1])
		}
	}
	for _, check := range []struct {
		name string
		ok   bool
		want string
	}{
		{"port", l.Port >= 0 && l.Port < 1<<16, "0 to 65535"},
		{"api-server-count", l.Frontends >= 1 && l.Frontends <= 64, "1 to 64"},
		{"debug-port", l.DebugPort >= 0 && l.DebugPort < 1<<16-2, "0 to 65533"},
		{"max-body-size", l.MaxBody >= 1<<10, "at least 1KiB"},
		{"max-open-jobs", l.MaxOpenJobs > 0, "at least 1"},
		{"drain-timeout", l.DrainTimeout > 0, "more than 0"},
		{"drain-grace-period", l.DrainGrace >= 0, "0 or more"},
		{"max-logprobs-per-request", l.MaxLogprobs > 0, "at least 1"},
		{"max-connections", l.MaxConnections > 0, "at least 1"},
		{"max-connections-per-address", l.MaxConnectionsPerAddress > 0, "at least 1"},
		{"allowed-origins", !slices.ContainsFunc(l.AllowedOrigins, notOrigin), "* or origins such as https://app.example.com or http://localhost:3000, separated by commas"},
		{"allow-credentials", !l.AllowCredentials || !slices.Contains(l.AllowedOrigins, "*"), "false unless allowed-origins lists each origin: browsers refuse * with credentials"},
		{"video-sources", areSources(l.VideoSources), "names of hosts, addresses and networks such as 10.1.0.0/16, separated by commas"},
		{"default-max-tokens", l.DefaultMaxTokens >= 0, "0 or more"},
		{"tool-call-parser", l.ToolCallParser == "" || slices.Contains(toolcalls.Names(), l.ToolCallParser), strings.Join(toolcalls.Names(), ", ")},
		{"tool-call-parser", l.ToolCallParser != "" || !l.AutoToolChoice, "one of " + strings.Join(toolcalls.Names(), ", ") + " with enable-auto-tool-choice"},
		{"tensor-parallel-size", l.Ranks >= 1 && l.Ranks <= 64 && (l.Device != "null" || l.Ranks == 1), "1 to 64, and 1 on device null"},
		{"device", isDevice(l.Device, l.Ranks), "cpu, cuda, GPUs like cuda:0,1 or cuda:GPU-8932f937, or null"},
		{"tensor-parallel-size", l.Devices() != nil, fmt.Sprintf("a divisor of the %d GPUs of %s", len(l.GPUs()), l.Device)},
		{"threads", l.Threads >= 0 && l.Threads <= 4096, "0 to 4096"},
		{"gpu-memory-utilization", l.GPUMemory > 0 && l.GPUMemory <= 1, "more than 0, up to 1"},
		{"attention-backend", l.Attention == "auto" || strings.HasPrefix(l.Device, "cuda"), "auto unless device is cuda"},
		{"kv-cache-memory-share", l.CacheShare >= 0 && l.CacheShare <= 1, "0 to 1"},
		{"kv-offloading-size", l.Offloading == 0 || l.Offloading > 0 && len(l.GPUs()) > 0,
			"0 or more GiB, and 0 without GPUs, where the prefix cache is in host memory already: raise kv-cache-memory-bytes"},
		{"block-size", l.BlockSize > 0 && l.BlockSize%16 == 0 && l.BlockSize <= 4096, "a multiple of 16 up to 4096"},
		{"prefill-chunk", l.PrefillChunk >= 0 && l.PrefillChunk <= 1<<16, "0 to 65536"},
		{"hang-timeout", l.HangTimeout == 0 || l.HangTimeout >= 3*time.Second, "0, or at least 3s: a process gives a sign of life each second"},
		{"tensor-memory", l.TensorMemory >= 1<<20, "at least 1MiB"},
		{"video-memory", l.VideoMemory >= 1<<20, "at least 1MiB"},
		{"cpu-slots", l.CPU.Slots >= 0 && l.CPU.Slots <= 4096, "0 to 4096"},
		{"cpu-slots-external", l.CPU.Slots == 0 || l.CPU.Outside <= l.CPU.Slots, "half, or 0 to cpu-slots"},
		{"lost-cause-threshold", l.CPU.LostCause >= 0, "0 or more"},
		{"curve-peers-file", (l.CurveKeyFile == "") == (l.CurvePeersFile == ""), "a file where curve-key-file has one, and none else"},
	} {
		if !check.ok {
			return l.outOfRange(Find(check.name), check.want)
		}
	}
	if err := l.Scheduler.Validate(); err != nil {
		return l.namedByFlag(err)
	}
	if err := l.validateModels(); err != nil {
		return err
	}
	return l.validateFiles()
}

// namedByFlag gives an error of the scheduler about a field of its configuration the name of the parameter that
// sets the field.
func (l *Loaded) namedByFlag(err error) error {
	var e *scheduler.FieldError
	if !errors.As(err, &e) {
		return err
	}
	field := reflect.ValueOf(&l.Scheduler).Elem().FieldByName(e.Field).Addr().Pointer()
	for i := range Params {
		if p := &Params[i]; reflect.ValueOf(p.field(&l.Config)).Pointer() == field {
			return l.outOfRange(p, e.Want)
		}
	}
	return err
}

func (l *Loaded) outOfRange(p *Param, want string) error {
	return fmt.Errorf("invalid %s %q (%s): want %s", p.Name, showValue(p.field(&l.Config)), l.Origin[p.Name], want)
}

func (l *Loaded) validateFiles() error {
	if origin := l.Origin["api-key"]; origin != "default" && len(l.APIKey) == 0 {
		return fmt.Errorf("api-key (%s) has no key; leave it out to serve without keys", origin)
	}
	for _, name := range []string{"chat-template", "api-key-file", "curve-key-file", "curve-peers-file"} {
		p := Find(name)
		if err := checkExists(showValue(p.field(&l.Config))); err != nil {
			return fmt.Errorf("%s (%s): %w", name, l.Origin[name], err)
		}
	}
	return nil
}

// checkExists is nil for a file that is there, and for none.
func checkExists(file string) error {
	if file == "" {
		return nil
	}
	_, err := os.Stat(file)
	return err
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// areSources says that these are what reach.New takes.
func areSources(list []string) bool {
	_, err := reach.New(list)
	return err == nil
}

// notOrigin says that no browser sends this as an Origin.
func notOrigin(text string) bool {
	if text == "*" {
		return false
	}
	u, err := url.Parse(text)
	return err != nil || strings.Contains(text, "*") || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != text
}
