package merge

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/dnn/onnx"
	"github.com/prefillonly/prefillonly/engine/dnn/onnx/onnxtest"
	"github.com/prefillonly/prefillonly/merging"
	"github.com/prefillonly/prefillonly/merging/generations"
	"github.com/prefillonly/prefillonly/merging/mergingtest"
	"github.com/prefillonly/prefillonly/merging/search"
)

// known is the trainer of the commands here.
var known mergingtest.Trainer

func execute(args ...string) (string, error) {
	var out bytes.Buffer
	c := newGroup(&runFlags{trainerOf: func(search.Policy) merging.Trainer { return known }, openServer: func(string, string) (Get, error) { return shows, nil }})
	c.SetArgs(args)
	c.SetOut(&out)
	c.SetErr(&out)
	err := c.Execute()
	return out.String(), err
}

// eyes writes two networks of equal layers and other weights, and a clip, in a directory of their own.
func eyes(t *testing.T) (a, b, clip string) {
	t.Helper()
	dir := t.TempDir()
	a, b, clip = filepath.Join(dir, "a.onnx"), filepath.Join(dir, "b.onnx"), filepath.Join(dir, "clip.mp4")
	file := onnxtest.File(13, onnxtest.Eye(1))
	write(t, a, file)
	if err := onnx.Patch(file, map[string][]float32{"red": {0, 2, 0, 0, 0, 0}, "place": {.5, .5, .75, .75}}); err != nil {
		t.Fatal(err)
	}
	write(t, b, file)
	write(t, clip, []byte("frames"))
	return a, b, clip
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestRunStatusRevert: a merge from the command line, what it leaves, and back.
func TestRunStatusRevert(t *testing.T) {
	a, b, clip := eyes(t)
	out := filepath.Join(t.TempDir(), "merged")
	args := []string{"run", a, b, "--data", "a=" + clip + ",b=" + clip, "--out", out, "--budget", "1m", "--target", ".95", "--seed", "3"}
	text, err := execute(args...)
	if err != nil || !strings.Contains(text, "generation 1: 0.000 MiB (50.0 %) less") || !strings.Contains(text, "1 (current)") {
		t.Fatalf("%v:\n%s", err, text)
	}
	var m generations.Merge
	content, err := os.ReadFile(filepath.Join(out, "current", "merge.json"))
	if err != nil || json.Unmarshal(content, &m) != nil || m.SharedBytes != 72 || len(m.Models) != 2 || m.Models[0].Name != "a" || m.Models[1].Low < .95 || m.Models[1].Objects != 1000 {
		t.Fatalf("%v: %s", err, content)
	}
	original, _ := os.ReadFile(a)
	if kept, err := os.ReadFile(filepath.Join(out, "current", "a.onnx")); err != nil || !bytes.Equal(original, kept) {
		t.Error("the donor's file has changed", err)
	}
	for _, field := range []string{`"score": `, `"low": `, `"n": 1000`, `"shared_bytes": 72`, `"donor": "a"`, `"original_sha256": `} {
		if !strings.Contains(string(content), field) {
			t.Errorf("merge.json lacks %s", field)
		}
	}
	report, err := os.ReadFile(filepath.Join(out, "report.html"))
	for _, part := range []string{"<h1>Merge of a, b</h1>", "<svg", "generation 1", "FP32[3 2]", "bar shared", "No frames: "} {
		if err != nil || !strings.Contains(string(report), part) {
			t.Errorf("%v: the report lacks %q:\n%s", err, part, report)
		}
	}
	for _, part := range []string{"<script", "src=\"http", "href"} {
		if strings.Contains(string(report), part) {
			t.Errorf("the report has %q", part)
		}
	}
	if again, err := execute(args...); err != nil || strings.Contains(again, "attempt 1:") || !strings.Contains(again, "1 (current)") {
		t.Errorf("%v, called again:\n%s", err, again)
	}
	if text, err := execute("status", out, "--json"); err != nil || !strings.Contains(text, `"ended": "nothing is left to try"`) || json.Unmarshal([]byte(text), &generations.Status{}) != nil {
		t.Errorf("%v, status:\n%s", err, text)
	}
	if text, err := execute("revert", out, "--model", "b"); err != nil || !strings.HasPrefix(text, "generation 2 is current: 0.000 MiB (0.0 %)") {
		t.Errorf("%v, %s", err, text)
	}
	if text, err := execute("revert", out, "--to", "1"); err != nil || !strings.HasPrefix(text, "generation 1 is current: 0.000 MiB (50.0 %)") {
		t.Errorf("%v, %s", err, text)
	}
	if text, err := execute("revert", out); err != nil || !strings.HasPrefix(text, "generation 0 is current") {
		t.Errorf("%v, %s", err, text)
	}
}

// TestNamesOfAConfiguration, its files and decoders.
func TestNamesOfAConfiguration(t *testing.T) {
	a, b, clip := eyes(t)
	list := filepath.Join(t.TempDir(), "models.yaml")
	write(t, list, []byte("models:\n- {name: door, path: "+a+", decoder: ssd}\n- {name: street, path: "+b+"}\n"))
	for _, files := range [][]string{nil, {"door", "street"}, {a, b}} {
		out := filepath.Join(t.TempDir(), "merged")
		if text, err := execute(append([]string{"run", "--config", list, "--data", clip, "--out", out}, files...)...); err != nil {
			t.Errorf("%q: %v\n%s", files, err, text)
		}
		for _, name := range []string{"door.onnx", "street.onnx"} {
			if _, err := os.Stat(filepath.Join(out, "current", name)); err != nil {
				t.Errorf("%q: %v", files, err)
			}
		}
	}
}

// TestBadMergesAreNamed: the figure, file or field that is wrong, before anything is trained.
func TestBadMergesAreNamed(t *testing.T) {
	a, b, clip := eyes(t)
	dir := t.TempDir()
	out := filepath.Join(dir, "merged")
	other := filepath.Join(dir, "other.onnx")
	write(t, other, mergingtest.Network(1, 2, 3))
	run := func(args ...string) []string { return append([]string{"run", "--out", out}, args...) }
	both := "--data=" + clip
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"run", a, b, both}, "--out"},
		{run(a, both), "got 1"},
		{run(a, a, both), a + " is given twice"},
		{run(a, b, both, "--target", "1.5"), "--target 1.5: want above 0 and at most 1"},
		{run(a, b, both, "--target", "NaN"), "--target NaN"},
		{run(a, b, both, "--budget", "0s"), "--budget 0s"},
		{run(a, b, both, "--policy", "best"), `"best": want one of adopt, joint, stem, mean`},
		{run(a, b, "--data", "a="+clip), "no clip of model b: give b=CLIP"},
		{run(a, b, "--data", "c="+clip), `no model is called "c": want one of a, b`},
		{run(a, b, "--data", clip+"x"), clip + "x"},
		{run(a, b, both, "--decoder", "b=eyes"), `model b: there is no decoder "eyes"`},
		{run(a, other, both, "--decoder", "ssd"), "a, other have no layers alike"},
		{run(a, other, both), "--decoder other=DECODER"},
		{run(a, filepath.Join(dir, "none.onnx"), both), "none.onnx"},
		{[]string{"status", dir}, dir + " has no merge"},
		{[]string{"revert", dir}, dir + " has no merge"},
		{[]string{"run", a, b, both, "--out", dir}, dir + " holds other.onnx, which does not belong to a merge"},
		{[]string{"revert", dir, "--to", "1", "--model", "a"}, "want one of them"},
	} {
		if text, err := execute(c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %q in it\n%s", c.args, err, c.want, text)
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a directory was made for nothing")
	}
	known.Objects = 37
	defer func() { known.Objects = 0 }()
	for range 2 {
		if _, err := execute(run(a, b, both)...); err == nil || !strings.Contains(err.Error(), "model a: its own network finds 37 objects") {
			t.Error(err)
		}
	}
}
