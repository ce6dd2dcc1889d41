package modellist

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/demo"
	"github.com/prefillonly/prefillonly/engine/dnn/onnx/onnxtest"
	"github.com/prefillonly/prefillonly/engine/weights/gguf/gguftest"
	"github.com/prefillonly/prefillonly/internal/config"
)

// TestResolveFiles: names and directories of all kinds; what is wrong with one leaves the others as they are.
func TestResolveFiles(t *testing.T) {
	scratch := t.TempDir()
	t.Setenv("HF_HOME", t.TempDir())
	dir, err := demo.Extract(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.Mkdir(broken, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Dir(dir))
	base := filepath.Base(dir)
	list := []config.Model{{}, {Path: base}, {Names: []string{"x", "y"}, Path: "./" + base}, {Path: broken}, {Path: "/no/where"}, {Path: "org/none"}}
	failed, err := resolveFiles(list, scratch, Cached)
	if err != nil {
		t.Fatal(err)
	}
	var names [][]string
	var paths []string
	for _, m := range list {
		names, paths = append(names, m.Names), append(paths, m.Path)
	}
	if want := [][]string{{demo.Name}, {base}, {"x", "y"}, {"broken"}, {"where"}, {"org/none"}}; !reflect.DeepEqual(names, want) {
		t.Errorf("names %q, want %q", names, want)
	}
	if !strings.HasPrefix(paths[0], scratch) || !reflect.DeepEqual(paths[1:], []string{dir, dir, broken, "/no/where", "org/none"}) {
		t.Errorf("paths %q", paths)
	}
	for i, want := range []string{"", "", "", "config.json", "/no/where", `"org/none" is neither a directory nor in the Hugging Face cache`} {
		if err := failed[i]; (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("model %d: %v, want %q", i, err, want)
		}
	}
}

// TestFindGGUF: a GGUF file is called after itself, without what tells its parts apart; one that is not there is no name of the hub.
func TestFindGGUF(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for file, want := range map[string]string{"small-Q4_K_M.gguf": "small-Q4_K_M", "big-00001-of-00003.gguf": "big", "OLD.GGUF": "OLD"} {
		gguftest.Write(t, file, []gguftest.Key{{Name: "general.architecture", Value: "mamba"}}, nil)
		found, name, err := Find(file, "", Cached)
		if found != filepath.Join(dir, file) || name != want || err != nil {
			t.Errorf("%s: %s, %s, %v", file, found, name, err)
		}
		list := []config.Model{{Path: file}}
		failed, err := resolveFiles(list, dir, Cached)
		if err != nil || failed[0] == nil || !strings.Contains(failed[0].Error(), `unsupported general.architecture "mamba"`) || !strings.Contains(failed[0].Error(), file) {
			t.Errorf("%s: %v, %v", file, failed, err)
		}
	}
	if _, _, err := Find("none.gguf", "", Cached); err == nil || !strings.Contains(err.Error(), "none.gguf: no such file") {
		t.Errorf("a file that is not there: %v", err)
	}
}

// TestCached: a model of the hub is found in the cache, at the revision that is asked for, and called by its name there.
func TestCached(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HF_HOME", home)
	repo, commit := filepath.Join(home, "hub", "models--org--name"), strings.Repeat("a", 40)
	for file, text := range map[string]string{"refs/main": commit, "refs/v1": commit, "snapshots/" + commit + "/config.json": "{}", "snapshots/" + commit + "/model.safetensors": ""} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(repo, file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(repo, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ path, revision, want string }{
		{"org/name", "", ""},
		{"org/name", "v1", ""},
		{"org/name@v1", "", ""},
		{"org/name@" + commit, "", ""},
		{"org/name@v1", "v2", "give one of the two"},
		{"org/name@v2", "", "prefillonly model download org/name@v2"},
		{"org/other", "", "prefillonly model download org/other"},
		{home, "v1", "only models of the Hugging Face hub have revisions"},
	} {
		dir, name, err := Find(c.path, c.revision, Cached)
		if c.want == "" && (err != nil || dir != filepath.Join(repo, "snapshots", commit) || name != "org/name") {
			t.Errorf("%s, %s: %s, %s, %v", c.path, c.revision, dir, name, err)
		}
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s, %s: %v, want %q", c.path, c.revision, err, c.want)
		}
	}
}

func TestIsPath(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("models", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"./x": true, "/x": true, "../x": true, "x/": true, "a/b/c": true, "~/x": true, "models/x": true, "my model": true,
		"gpt2": false, "Qwen/Qwen2.5-0.5B": false, "org/x_1": false,
	} {
		if got := isPath(name); got != want {
			t.Errorf("isPath(%q) = %v", name, got)
		}
	}
}

// TestResolveNetworks: a network's file or directory gives a name and a task; what is none is told with its path.
func TestResolveNetworks(t *testing.T) {
	dir := t.TempDir()
	network := onnxtest.File(17, onnxtest.Graph{
		Inputs:  []onnxtest.Value{{Name: "x", Type: onnxtest.Float32, Dims: []any{1}}},
		Outputs: []onnxtest.Value{{Name: "y", Type: onnxtest.Float32, Dims: []any{1}}},
		Nodes:   []onnxtest.Node{{Op: "Relu", In: []string{"x"}, Out: []string{"y"}}},
	})
	for name, data := range map[string][]byte{"net.onnx": network, "nets/one.onnx": network, "broken.onnx": []byte("no network")} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, data, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	for _, c := range []struct{ path, task, name, failed string }{
		{"net.onnx", "", "net", ""},
		{"nets", config.TaskInfer, "nets", ""},
		{filepath.Join(dir, "nets", "one.onnx"), "", "one", ""},
		{"net.onnx", config.TaskGenerate, "net", "invalid task generate: want infer, by its files"},
		{"broken.onnx", "", "broken", filepath.Join(dir, "broken.onnx")},
		{"missing.onnx", "", "missing", filepath.Join(dir, "missing.onnx")},
	} {
		list := []config.Model{{Path: c.path, Task: c.task}}
		failed, err := resolveFiles(list, dir, Cached)
		if err != nil {
			t.Fatal(err)
		}
		m := list[0]
		if m.Names[0] != c.name || m.Task != config.TaskInfer || !filepath.IsAbs(m.Path) {
			t.Errorf("%s: %+v", c.path, m)
		}
		if failed[0] == nil != (c.failed == "") || c.failed != "" && !strings.Contains(failed[0].Error(), c.failed) {
			t.Errorf("%s: %v, want %q", c.path, failed[0], c.failed)
		}
	}
}
