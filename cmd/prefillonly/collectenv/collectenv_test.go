package collectenv

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/internal/config"
)

// TestOneProbeFails: it says so, whatever it does, and the others are told.
func TestOneProbeFails(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	text := formatSections(runProbes([]probe{
		{"panics", func(f *found) { f.addItem("before", "here", nil); panic("no such thing") }},
		{"hangs", func(*found) { <-release }},
		{"errs", func(f *found) { f.addItem("size", "", errors.New("permission denied")) }},
		{"works", func(f *found) { f.addItem("size", "two\nlines", nil) }},
	}, 50*time.Millisecond))
	for _, want := range []string{"here", "no such thing", "no answer in 50ms", "(not known: permission denied)", "    two\n    lines\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
}

func TestSecretsAreHidden(t *testing.T) {
	for pair, want := range map[string]string{
		"PREFILLONLY_API_KEY=abc":                           hidden,
		"PREFILLONLY_API_KEY_FILE=/etc/keys":                "/etc/keys",
		"HF_TOKEN=hf_abc":                                   hidden,
		"OTEL_EXPORTER_OTLP_HEADERS=authorization=x":        hidden,
		"HTTPS_PROXY=http://me:pw@proxy:3128/":              "http://***@proxy:3128/",
		"HTTPS_PROXY=http://me:p/w@proxy":                   "http://***@proxy",
		"https_proxy=me:p /w'?#@proxy:3128":                 "***@proxy:3128",
		"NO_PROXY=localhost,.example.org":                   "localhost,.example.org",
		"PREFILLONLY_MODELS=rtsp://me@corp:p/@w?@cam/1 x":   "rtsp://***@cam/1 x",
		"HF_ENDPOINT=https://hub/x@v1":                      "https://hub/x@v1",
		"HF_ENDPOINT=https://hub/x?sig=abc&n=1":             "https://hub/x?sig=***&n=***",
		"PREFILLONLY_MODELS=rtsp://u:p@cam/1, http://a:b@c": "rtsp://***@cam/1, http://***@c",
		"NCCL_DEBUG=Bearer abc.def":                         "Bearer ***",
		"PREFILLONLY_API_KEY=":                              "",
	} {
		name, value, _ := strings.Cut(pair, "=")
		if got := shownVariable(name, value); got != want {
			t.Errorf("%s is shown as %q, want %q", pair, got, want)
		}
	}
	f := &found{}
	collectEnvironment(f, []string{"HOME=/root", "AWS_SECRET=x", "HF_TOKEN=x", "CUDA_VISIBLE_DEVICES=0"})
	if got := formatSections([]Section{{"", f.items}}); strings.Contains(got, "AWS") || strings.Contains(got, "HOME") || !strings.Contains(got, "CUDA_VISIBLE_DEVICES:  0") || !strings.Contains(got, hidden) {
		t.Errorf("%s", got)
	}
}

func TestSettings(t *testing.T) {
	l, err := config.Load("", []string{"PREFILLONLY_PORT=8123", "PREFILLONLY_API_KEY=sk-secret"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := &found{}
	collectParameters(f, func() (*config.Loaded, error) { return l, nil })
	if got := f.items[0].Value; !strings.Contains(got, "port: 8123") || !strings.Contains(got, "not shown") || strings.Contains(got, "secret") || strings.Contains(got, "host") {
		t.Errorf("%s", got)
	}
	collectParameters(f, func() (*config.Loaded, error) { return nil, errors.New("config.yaml:3: unknown key") })
	if f.items[1].Error == "" {
		t.Error("a mistake in the settings is not told")
	}
}

// TestForeignMachines: of a root with other files, or none, everything says what it found.
func TestForeignMachines(t *testing.T) {
	root := t.TempDir()
	for path, text := range map[string]string{
		"proc/self/cgroup":                         "0::/kubepods/pod1\n",
		"sys/fs/cgroup/kubepods/memory.max":        "8589934592\n",
		"sys/fs/cgroup/kubepods/pod1/memory.max":   "max\n",
		"sys/fs/cgroup/kubepods/pod1/cpu.max":      "200000 100000\n",
		"proc/1/environ":                           "A=b\x00container=lxc\x00",
		"sys/devices/system/node/node0/cpulist":    "0-3\n",
		"sys/devices/system/node/node0/meminfo":    "Node 0 MemTotal:       1024 kB\nNode 0 MemFree: 1 kB\n",
		"proc/meminfo":                             "MemTotal:   2048 kB\nMemAvailable: 1024 kB\n",
		"usr/lib/x86_64-linux-gnu/libzmq.so.5.2.4": "",
	} {
		file := filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range []machine{{root}, {t.TempDir()}} {
		got := formatSections(runProbes([]probe{{"s", m.system}, {"p", m.processor}, {"m", m.memory}, {"l", m.limits}, {"b", m.libraries}}, time.Minute))
		if strings.Contains(got, "the probe failed") {
			t.Errorf("%s", got)
		}
		for _, want := range []string{"8589934592", "200000 100000", "lxc", "processors 0-3, memory 1024 kB", "2048 kB", "libzmq.so.5.2.4"} {
			if has := strings.Contains(got, want); has != (m.root == root) {
				t.Errorf("%q is told: %v\n%s", want, has, got)
			}
		}
	}
}
