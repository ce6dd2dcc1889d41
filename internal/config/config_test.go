package config

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// load reads a file's text, an environment and arguments as serve does.
func load(t *testing.T, yaml string, environ []string, args ...string) (*Loaded, error) {
	t.Helper()
	file := ""
	if yaml != "" {
		file = filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	Flags(flags, Serve)
	if err := flags.Parse(args); err != nil {
		return nil, UnknownFlag(err, flags)
	}
	l, err := Load(file, environ, flags)
	if err == nil {
		err = l.Validate()
	}
	return l, err
}

func TestPrecedence(t *testing.T) {
	const file = "port: 1001\nmax-model-len: 1K\nhost: '::1'\n"
	environ := []string{"HOME=/root", "PREFILLONLY_PORT=1002", "PREFILLONLY_HOST=0.0.0.0", "PREFILLONLY_CHILD_X=1", "PREFILLONLY_CONFIG=x"}
	l, err := load(t, file, environ, "--port", "1003")
	if err != nil {
		t.Fatal(err)
	}
	if l.Port != 1003 || l.Host != "0.0.0.0" || l.MaxModelLen != 1024 || l.Device != "cpu" {
		t.Errorf("port %d, host %s, max-model-len %d, device %s", l.Port, l.Host, l.MaxModelLen, l.Device)
	}
	for name, want := range map[string]string{"port": "--port", "host": "$PREFILLONLY_HOST", "max-model-len": "c.yaml:2", "device": "default"} {
		if !strings.HasSuffix(l.Origin[name], want) {
			t.Errorf("origin of %s is %q, want %q", name, l.Origin[name], want)
		}
	}
}

func TestFlagForms(t *testing.T) {
	l, err := load(t, "", nil, "--max_model_len=32K", "--no-enable-prefix-caching", "--access-log=false", "--user-fairness",
		"--served-model-name", "a, b", "--kv-cache-memory-bytes", "1.5GiB", "--drain-timeout", "1m30s", "--fairness", "2.5",
		"--max-num-seqs", "256", "--enforce-eager")
	if err != nil {
		t.Fatal(err)
	}
	if l.MaxModelLen != 32768 || l.Scheduler.PrefixCaching || l.AccessLog || !l.Scheduler.UserFairness ||
		!reflect.DeepEqual(l.ServedModelName, []string{"a", "b"}) || l.CacheBytes != 3<<29 || l.DrainTimeout != 90*time.Second || l.Scheduler.Fairness != 2.5 {
		t.Errorf("got %+v", l.Config)
	}
	if len(l.Warnings) != 2 || !strings.Contains(strings.Join(l.Warnings, "\n"), "--max-num-seqs is ignored: jobs are packed") {
		t.Errorf("warnings %q, want one for each ignored flag", l.Warnings)
	}
}

func TestErrorsTeach(t *testing.T) {
	for _, c := range []struct {
		yaml    string
		environ []string
		args    []string
		want    []string
	}{
		{args: []string{"--prot", "1"}, want: []string{"--prot", "--port"}},
		{args: []string{"--api-key", "k"}, want: []string{"--api-key-file", "PREFILLONLY_API_KEY"}},
		{args: []string{"--port", "70000"}, want: []string{"port", "70000", "--port", "65535"}},
		{args: []string{"--block-size", "50"}, want: []string{"block-size", "multiple of 16"}},
		{args: []string{"--attention-backend", "FLASH_ATTN", "--device", "cuda"}, want: []string{"FLASH_ATTN", "auto, cudnn or flashinfer"}},
		{args: []string{"--attention-backend", "cudnn"}, want: []string{"attention-backend", "unless device is cuda"}},
		{args: []string{"--device", "tpu"}, want: []string{"tpu", "cpu, cuda"}},
		{args: []string{"--scheduling-policy", "lottery"}, want: []string{"lottery", "srjf-calibrated"}},
		{args: []string{"--fairness", "much"}, want: []string{"--fairness", "much", "want a number"}},
		{args: []string{"--drain-timeout", "30"}, want: []string{"30s"}},
		{args: []string{"--kv-cache-memory-bytes", "lots"}, want: []string{"lots", "4GiB"}},
		{args: []string{"--max-model-len", "-1"}, want: []string{"-1", "32K"}},
		{args: []string{"--curve-key-file", "x"}, want: []string{"curve-key-file"}},
		{args: []string{"--kv-events-config", `{"enable_kv_events":true}`}, want: []string{"--kv-events-config", `"enable_kv_events"`, "one of enable_kv_cache_events, publisher"}},
		{args: []string{"--kv-events-config", `{"enable_kv_cache_events":"on"}`}, want: []string{"enable_kv_cache_events", "want true or false"}},
		{args: []string{"--kv-events-config", `{"publisher":"null"}`}, want: []string{"publisher", "want zmq"}},
		{args: []string{"--kv-events-config", `{"hwm":0}`}, want: []string{"invalid hwm 0", "at least 1"}},
		{args: []string{"--kv-events-config", `{"topic":["a":1]}`}, want: []string{"topic"}},
		{args: []string{"--kv-events-config", " "}, want: []string{"--kv-events-config", `invalid value " ": want a JSON object`}},
		{args: []string{"--kv-events-config", "\t\n---"}, want: []string{"want a JSON object"}},
		{args: []string{"--kv-events-config", `on`}, want: []string{`invalid value "on": want a JSON object`}},
		{args: []string{"--kv-offloading-size", "4"}, want: []string{"kv-offloading-size", "without GPUs, where the prefix cache is in host memory already", "raise kv-cache-memory-bytes"}},
		{args: []string{"--kv-offloading-size", "-1", "--device", "cuda"}, want: []string{"kv-offloading-size", "0 or more GiB"}},
		{args: []string{"--access-log=maybe"}, want: []string{"maybe", "want true or false"}},
		{environ: []string{"PREFILLONLY_MAX_BODY=1"}, want: []string{"PREFILLONLY_MAX_BODY", "PREFILLONLY_MAX_BODY_SIZE"}},
		{environ: []string{"PREFILLONLY_PORT="}, want: []string{"$PREFILLONLY_PORT"}},
		{environ: []string{"PREFILLONLY_API_KEY="}, want: []string{"api-key ($PREFILLONLY_API_KEY)", "no key"}},
		{environ: []string{"PREFILLONLY_API_KEY= , "}, want: []string{"api-key ($PREFILLONLY_API_KEY)", "no key"}},
		{yaml: "api-key-file: /nowhere/keys\n", want: []string{"/nowhere/keys", "c.yaml:1"}},
	} {
		_, err := load(t, c.yaml, c.environ, c.args...)
		if err == nil {
			t.Errorf("%v: no error", c)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v: %q lacks %q", c, err, want)
			}
		}
	}
}

// TestSchedulerErrorsNameParameters: what the scheduler refuses is told by the flag that set it.
func TestSchedulerErrorsNameParameters(t *testing.T) {
	for flag, value := range map[string]string{
		"fairness": "-1", "max-num-queued-reqs": "0", "max-num-queued-tokens": "-5", "max-queue-time": "-1s", "max-pass-items": "-1",
		"max-paused-passes": "0", "peer-timeout": "0s", "unavailable-after": "-1s",
	} {
		if _, err := load(t, "", nil, "--"+flag, value); err == nil || !strings.HasPrefix(err.Error(), "invalid "+flag+` "`+value+`" (--`+flag+"): want ") {
			t.Errorf("--%s %s: %v", flag, value, err)
		}
	}
}

// TestBadFiles: each file of testdata is refused with its line and a hint.
func TestBadFiles(t *testing.T) {
	for name, want := range map[string][]string{
		"unknown-key": {":1:", `unknown key "prot"`, `"port"`},
		"bad-value":   {":1:", "port", "many"},
		"not-a-map":   {"line 1", "want a map"},
		"nested":      {":1:", "scheduler"},
		"twice":       {":2:", "set twice", ":1"},
		"syntax":      {"[1:7]"},
	} {
		file := "testdata/" + name + ".bad.yaml"
		_, err := Load(file, nil, nil)
		if err == nil {
			t.Errorf("%s is accepted", file)
			continue
		}
		for _, w := range append(want, file) {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q lacks %q", file, err, w)
			}
		}
	}
	if _, err := Load("testdata/absent.yaml", nil, nil); !os.IsNotExist(err) {
		t.Errorf("an absent file: %v", err)
	}
}

// TestShippedFiles: every YAML file in configs loads and is valid.
func TestShippedFiles(t *testing.T) {
	files, err := filepath.Glob("../../configs/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		l, err := Load(file, nil, nil)
		if err == nil {
			err = l.Validate()
		}
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestSystemdUnit(t *testing.T) {
	text, err := os.ReadFile("../../configs/prefillonly.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Type=notify", "WatchdogSec=", "RestartPreventExitStatus=64 78", "KillMode=mixed"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the unit lacks %s", want)
		}
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "Environment="); ok {
			if _, err := Load("", strings.Fields(rest), nil); err != nil {
				t.Errorf("Environment=%s: %v", rest, err)
			}
		}
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	// The binary and the user of the unit are not here; any that are will do for the check.
	unit := filepath.Join(t.TempDir(), "prefillonly.service")
	if err := os.WriteFile(unit, []byte(strings.NewReplacer("/usr/bin/prefillonly", "/bin/true", "User=prefillonly\nGroup=prefillonly\n", "").Replace(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", "--man=no", unit).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestYAMLRoundTrip: what `config show` prints is a file that gives the same configuration.
func TestYAMLRoundTrip(t *testing.T) {
	l, err := load(t, "", []string{"PREFILLONLY_API_KEY=sk-secret"}, "--served-model-name", "a,b", "--kv-cache-memory-bytes", "5GiB",
		"--scheduler-endpoint", "ipc:///tmp/x", "--fairness", "0.125", "--model", "it's: a #model", "--no-access-log")
	if err != nil {
		t.Fatal(err)
	}
	text := l.YAML()
	if strings.Contains(text, "sk-secret") {
		t.Error("the secret is shown")
	}
	again, err := load(t, text, nil)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	again.APIKey = l.APIKey
	if !reflect.DeepEqual(again.Config, l.Config) {
		t.Errorf("read back %+v\nwant %+v", again.Config, l.Config)
	}
}

// TestEnvironRoundTrip: a child reads from its environment what the supervisor decided, and no secret
// that is not its own.
func TestEnvironRoundTrip(t *testing.T) {
	l, err := load(t, "", []string{"PREFILLONLY_API_KEY=k1,k2"}, "--served-model-name", "a,b", "--max-queue-time", "3s", "--port", "0")
	if err != nil {
		t.Fatal(err)
	}
	child, err := Load("", l.Environ(Serve), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(child.Config, l.Config) {
		t.Errorf("the child reads %+v\nwant %+v", child.Config, l.Config)
	}
	if text := strings.Join(l.Environ(Executor|Scheduler), "\n"); strings.Contains(text, "k1") {
		t.Errorf("the key goes to the executor: %s", text)
	}
}

// TestTable: each row is complete, and its default survives show and set.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for i := range Params {
		p := &Params[i]
		if seen[p.Name] || p.Help == "" || p.Roles == 0 || p.Group == "" {
			t.Errorf("row %s: repeated or incomplete", p.Name)
		}
		seen[p.Name] = true
		c, standard := Config{}, Default()
		text := showValue(p.field(&standard))
		if err := setValue(p.field(&c), text); err != nil {
			t.Errorf("%s: default %q: %v", p.Name, text, err)
		}
		if got := showValue(p.field(&c)); got != text {
			t.Errorf("%s: default %q reads back as %q", p.Name, text, got)
		}
		_, isBool := p.field(&c).(*bool)
		if isBool != (p.Value == "") {
			t.Errorf("%s: a switch and only a switch has no value", p.Name)
		}
	}
}

func TestKVEvents(t *testing.T) {
	for text, want := range map[string]KVEvents{
		"":                                 {},
		`{"topic":"kv@a@b"}`:               {},
		`{"enable_kv_cache_events": true}`: {Enabled: true, BufferSteps: 10_000, HWM: 100_000},
		`{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:1","replay_endpoint":"tcp://*:2","topic":"kv@\"p\"@m","buffer_steps":3,"hwm":4,"max_queue_size":5}`: {
			Enabled: true, Endpoint: "tcp://*:1", ReplayEndpoint: "tcp://*:2", Topic: `kv@"p"@m`, BufferSteps: 3, HWM: 4,
		},
	} {
		var got, again KVEvents
		if err := got.Set(text); err != nil || got != want {
			t.Errorf("%s is read as %+v, %v, want %+v", text, got, err, want)
		}
		if err := again.Set(got.String()); err != nil || again != want {
			t.Errorf("%s is shown as %s, which is read as %+v, %v", text, got, again, err)
		}
	}
}

// FuzzKVEvents: no text makes Set panic, and what it reads it shows so that it is read again.
func FuzzKVEvents(f *testing.F) {
	for _, seed := range []string{" ", "---", "{}", "null", `{"enable_kv_cache_events":true,"hwm":[1]}`, "a: b: c", "- 1", `{"endpoint":{}}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var k, again KVEvents
		if k.Set(text) != nil {
			return
		}
		if err := again.Set(k.String()); err != nil || again != k {
			t.Errorf("%q is shown as %s, which is read as %+v, %v", text, k, again, err)
		}
	})
}

// FuzzLoadFile: no text makes Load panic.
func FuzzLoadFile(f *testing.F) {
	for _, seed := range []string{"port: 1\n", "a: [1, {b: c}]", "served-model-name:\n- a\n- b\n", "? x\n: y", "--- \n...\n", "&a port: *a", "host: |\n  x\n", "kv-events-config: '{\"hwm\":[1]}'\n"} {
		f.Add(seed)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		file := filepath.Join(dir, "fuzz.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if l, err := Load(file, nil, nil); err == nil {
			_ = l.YAML()
		}
	})
}

func TestOrigins(t *testing.T) {
	for origins, good := range map[string]bool{
		"": true, "*": true, "https://a.example,http://localhost:3000": true, "a.example": false, "https://a.example/": false,
		"https://a.example/path": false, `["*"]`: false, "https://*.example.com": false,
	} {
		l, err := load(t, "", nil, "--allowed-origins", origins)
		if err == nil {
			err = l.Validate()
		}
		if good != (err == nil) || err != nil && !strings.Contains(err.Error(), "allowed-origins") {
			t.Errorf("%q: %v", origins, err)
		}
	}
	l, err := load(t, "", nil, "--allowed-origins", "*", "--allow-credentials")
	if err == nil {
		err = l.Validate()
	}
	if err == nil || !strings.Contains(err.Error(), "allow-credentials") {
		t.Errorf("every origin with credentials: %v", err)
	}
}
