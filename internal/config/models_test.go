package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestModelsOfAFile(t *testing.T) {
	template := filepath.Join(t.TempDir(), "chat.jinja")
	if err := os.WriteFile(template, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := load(t, `# two models
max-model-len: 4K
models:
- path: ./A            # all defaults
- name: [b, bee]
  path: org/B
  task: generate
  devices: cpu
  keep: {idle: 5m}
  cache_share: 0.25
  max-model-len: 8K
  chat-template: `+template+`
  hf_overrides: {"architectures": ["Qwen3ForSequenceClassification"], "classifier_from_token": ["no", "yes"], "is_original_qwen3_reranker": true}
- {path: C, keep: always}
`, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []Model{
		{Path: "./A", Keep: Keep{When: KeepOnDemand}, MaxModelLen: 4096},
		{
			Names: []string{"b", "bee"}, Path: "org/B", Task: TaskGenerate, Devices: "cpu", Keep: Keep{When: KeepIdle, Idle: 5 * time.Minute}, CacheShare: 0.25,
			MaxModelLen: 8192, ChatTemplate: template,
			Overrides: Overrides{Architectures: []string{"Qwen3ForSequenceClassification"}, ClassifierFromToken: []string{"no", "yes"}, Original: true},
		},
		{Path: "C", Keep: Keep{When: KeepAlways}, MaxModelLen: 4096},
	}
	if got := l.Serving(); !reflect.DeepEqual(got, want) {
		t.Errorf("serving\n%+v\nwant\n%+v", got, want)
	}
	for i, line := range []string{":4", ":5", ":14"} {
		if origin := l.ModelOrigin(i); !strings.Contains(origin, "c.yaml"+line+")") {
			t.Errorf("model %d is from %s, want line %s", i, origin, line)
		}
	}
	if l.Models[0].Keep.When != "" {
		t.Error("Serving changes what was given")
	}
}

// TestOneModel: what the flags for one model say is the list of one.
func TestOneModel(t *testing.T) {
	l, err := load(t, "", nil, "--model", "./A", "--served-model-name", "a,b", "--max-model-len", "2K",
		"--hf-overrides", `{"classifier_from_token":["0","1"],"method":"from_2_way_softmax"}`)
	want := []Model{{Names: []string{"a", "b"}, Path: "./A", Keep: Keep{When: KeepAlways}, MaxModelLen: 2048, Overrides: Overrides{ClassifierFromToken: []string{"0", "1"}, Method: "from_2_way_softmax"}}}
	if err != nil || !reflect.DeepEqual(l.Serving(), want) {
		t.Errorf("%v, serving %+v, want %+v", err, l, want)
	}
	l, err = load(t, "models: [{path: ./A}]", nil)
	if err != nil || l.Serving()[0].Keep.When != KeepAlways {
		t.Errorf("%v: a list of one is kept %+v", err, l.Serving())
	}
}

func TestArguments(t *testing.T) {
	named := filepath.Join(t.TempDir(), "a=b")
	if err := os.Mkdir(named, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args  []string
		names []string // of each, joined by commas
		paths []string
	}{
		{[]string{"./A"}, []string{""}, []string{"./A"}},
		{[]string{"x=./A"}, []string{"x"}, []string{"./A"}},
		{[]string{"./A", "org/B"}, []string{"", ""}, []string{"./A", "org/B"}},
		{[]string{"x=./A", "y=./A", named}, []string{"x", "y", ""}, []string{"./A", "./A", named}},
		{[]string{"x=a=b", "y="}, []string{"x", "y"}, []string{"a=b", ""}},
	} {
		for _, file := range []string{"", "model: ./file\n", "models: [{path: ./file}, {path: ./file2}]\n"} {
			l, err := load(t, file, nil)
			if err != nil {
				t.Fatal(err)
			}
			l.Arguments(c.args)
			var names, paths []string
			for _, m := range l.Serving() {
				names, paths = append(names, strings.Join(m.Names, ",")), append(paths, m.Path)
			}
			if !reflect.DeepEqual(names, c.names) || !reflect.DeepEqual(paths, c.paths) {
				t.Errorf("%q over %q: names %q of %q", c.args, file, names, paths)
			}
			if err := l.Validate(); (err == nil) == strings.HasSuffix(c.args[len(c.args)-1], "=") {
				t.Errorf("%q over %q: %v", c.args, file, err)
			}
		}
	}
}

// TestModelErrorsTeach: each names the file and the line, or the argument, and the field.
func TestModelErrorsTeach(t *testing.T) {
	long := strings.Repeat("x", 257)
	for text, want := range map[string][]string{
		"models:\n- path: ./A\n- nam: b\n":                                        {"c.yaml:1", "model 2", "line 3", `"nam"`, `"name"`},
		"models:\n- path: ./A\n  path: ./B\n":                                     {"c.yaml", "path"},
		"models:\n- path: ./A\n- name: b\n":                                       {"models[1] (", "c.yaml:3", "missing path"},
		"models: ./A\n":                                                           {"c.yaml:1", "want a list of models"},
		"models: {path: ./A}\n":                                                   {"c.yaml:1", "want a value"},
		"models: [./A, ./B]\n":                                                    {"c.yaml:1", "model 1", "want a map"},
		"models:\n- path: [{a: b}]\n":                                             {"line 2", "path", "want a value"},
		"models:\n- path: ./A\n  keep: 5m\n":                                      {"line 3", "keep", "{idle: 5m}"},
		"models:\n- path: ./A\n  keep: {idle: soon}\n":                            {"line 3", "keep", "soon", "30s"},
		"models:\n- path: ./A\n  keep: {idle: -1s}\n":                             {"c.yaml:2", "invalid keep {idle: -1s}"},
		"models:\n- path: ./A\n  keep: {busy: 1s}\n":                              {"line 3", "keep", "{idle: 5m}"},
		"models:\n- path: ./A\n  task: embed\n":                                   {"c.yaml:2", `invalid task "embed": want generate or infer`},
		"models:\n- path: ./A\n  devices: tpu\n":                                  {"c.yaml:2", `invalid devices "tpu"`, "cuda:0,1"},
		"models:\n- path: ./A\n  cache-share: 1.5\n":                              {"c.yaml:2", "invalid cache-share 1.5", "0 to 1"},
		"models:\n- path: ./A\n  cache-share: NaN\n":                              {"c.yaml:2", "invalid cache-share NaN"},
		"models:\n- {path: A, cache-share: 0.6}\n- {path: B, cache-share: 0.6}\n": {"c.yaml:3", "cache-share", "cpu", "1.2"},
		"models:\n- {path: A, name: a}\n- {path: B, name: [b, a]}\n":              {"models[1] (", "c.yaml:3", `the name "a"`, "models[0] (", "c.yaml:2"},
		"models:\n- {path: A, name: ['']}\n":                                      {"c.yaml:2", "empty name"},
		"models:\n- {path: A, name: \"a\\nb\"}\n":                                 {"c.yaml:2", `"a\nb"`, "want printable characters"},
		"models:\n- {path: A, name: " + long + "}\n":                              {"c.yaml:2", "257 bytes", "256"},
		"models:\n- {path: A, chat-template: /nowhere/t}\n":                       {"c.yaml:2", "chat-template", "/nowhere/t"},
		"models:\n- path: A\n  image: {mean: 1, scala: 2}\n":                      {"line 3", "image", `"scala"`, `"scale"`},
		"models:\n- path: A\n  image: {mean: x}\n":                                {"line 3", "image", "mean", `invalid value "x": want a number`},
		"models:\n- path: A\n  hf-overrides: {rope_theta: 3}\n":                   {"line 3", "hf-overrides", `"rope_theta"`, "classifier_from_token"},
		"models:\n- path: A\n  hf-overrides: yes\n":                               {"line 3", "hf-overrides", "want a map"},
		"models:\n- path: A\n  image: pictures\n":                                 {"line 3", "image", "want a map"},
		"models:\n- {path: A, image: {scale: [1, 0]}}\n":                          {"c.yaml:2", "image", "invalid scale 0"},
		"models:\n- {path: A, image: {mean: NaN}}\n":                              {"c.yaml:2", "image", "invalid mean NaN"},
		"models:\n- {path: A, image: {mean: [1, 2, 3, 4, 5]}}\n":                  {"c.yaml:2", "image", "5 values"},
		"models:\n- {path: A, image: {order: GBR}}\n":                             {"c.yaml:2", "image", `invalid order "GBR"`, "BGR"},
		"models:\n- {path: A, image: {layout: CHWN}}\n":                           {"c.yaml:2", "image", `invalid layout "CHWN"`},
		"models:\n- {path: A, image: {size: 416}}\n":                              {"c.yaml:2", "image", "invalid size [416]"},
		"models:\n- {path: A, image: {letterbox: 256}}\n":                         {"c.yaml:2", "image", "invalid letterbox [256]"},
		"model: ./M\nmodels:\n- path: ./A\n":                                      {"model (", "c.yaml:1", "models (", "c.yaml:2"},
		"served-model-name: x\nmodels:\n- path: ./A\n":                            {"served-model-name (", "c.yaml:1", "leave one"},
		"served-model-name: \"a\\tb\"\n":                                          {"served-model-name (", `"a\tb"`},
		"models:\n- path: &a ./A\n- path: *a\n":                                   {"line 2", "path", "write the value out"},
		"models: " + strings.Repeat("[", 100):                                     {"nested too deeply"},
		"models:\n" + strings.Repeat("- ", 100) + "a":                             {"nested too deeply"},
	} {
		_, err := load(t, text, nil)
		if err == nil {
			t.Errorf("%q is accepted", text)
			continue
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q: %q lacks %q", text, err, w)
			}
		}
	}
	if _, err := load(t, "", nil, "--models", `[{"path":"A"},{"name":"x"}]`); err == nil || !strings.Contains(err.Error(), "models[1] (--models): missing path") {
		t.Errorf("a flag without a path: %v", err)
	}
}

func TestHostedOn(t *testing.T) {
	for _, c := range []struct {
		devices, device string
		ranks           int
		hosted          bool
	}{
		{"", "cpu", 1, true},
		{"", "cuda:0", 1, true},
		{"cpu", "cpu", 1, true},
		{"cpu", "null", 1, false},
		{"cuda", "cuda:3", 1, true},
		{"cuda:0", "cuda:0", 1, true},
		{"cuda:0", "cuda:1", 1, false},
		{"cuda:1,0", "cuda:0", 1, true},
		{"cuda:0,1", "cuda:0,1", 2, true},
		{"cuda:0", "cuda:0,1", 2, false},
		{"cuda:GPU-8932f937", "cuda:GPU-8932f937", 1, true},
		{"cuda:0", "cpu", 1, false},
	} {
		cfg := Config{Ranks: c.ranks}
		if got := cfg.HostedOn(&Model{Devices: c.devices}, c.device); got != c.hosted {
			t.Errorf("devices %q on %q with %d ranks: %v", c.devices, c.device, c.ranks, got)
		}
	}
}

// TestManyModels: a thousand are read in a moment, as they were written; so are none.
func TestManyModels(t *testing.T) {
	for _, n := range []int{0, 1000} {
		var list []Model
		for i := range n {
			list = append(list, Model{Names: []string{fmt.Sprint("m", i)}, Path: fmt.Sprint("/models/", i)})
		}
		start := time.Now()
		l, err := load(t, ModelsYAML(list), nil)
		if err != nil || !reflect.DeepEqual(l.Models, list) {
			t.Fatalf("%v: not the %d models that were written", err, n)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%d models are read in %v", n, took)
		}
	}
}

func TestChanged(t *testing.T) {
	before, after := Default(), Default()
	after.Port, after.Scheduler.Fairness, after.MaxModelLen, after.Models = 9, 1, 7, []Model{{Path: "A"}}
	if got := Changed(&before, &after); !reflect.DeepEqual(got, []string{"port", "fairness"}) {
		t.Errorf("changed are %q", got)
	}
}
