package config

import (
	"strings"
	"testing"
)

// TestMergedIsKept: a merged model reads back as it was.
func TestMergedIsKept(t *testing.T) {
	var list, again modelList
	if err := list.Set(`[{path: ./a.onnx, merged: ./merged, drift: {sample: 0.01, rate: 2.5, target: 0.9}}, {path: b.onnx, merged: x}]`); err != nil {
		t.Fatal(err)
	}
	if m := list[0]; m.Merged != "./merged" || m.Drift != (Drift{Sample: .01, Rate: 2.5, Target: .9}) || list[1].Drift != (Drift{}) {
		t.Errorf("%+v", list)
	}
	if err := again.Set(list.String()); err != nil || again.String() != list.String() || again[0].Drift != list[0].Drift {
		t.Errorf("%s became %s, %v", list.String(), again.String(), err)
	}
}

func TestWhatFitsNoMergeIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{drift: {target: 0.9}}`:               "drift is of a merged network: set merged",
		`{merged: m, drift: {target: 1.5}}`:    "invalid drift: target 1.5: want above 0 and at most 1",
		`{merged: m, drift: {sample: -0.1}}`:   "invalid drift: sample -0.1",
		`{merged: m, drift: {rate: NaN}}`:      "invalid drift: rate NaN",
		`{merged: m, drift: {rate: 1e9}}`:      "invalid drift: rate 1e+09",
		`{merged: m, drift: {targets: 0.9}}`:   `unknown key "targets"; the nearest is "target"`,
		`{merged: m, drift: 0.9}`:              "want a map such as {sample: 0.003, target: 0.95}",
		`{merged: m, pipeline: ocr, path: a}`:  "merged is of one network, and pipeline ocr of several",
		`{merged: m, task: generate, path: a}`: "invalid task generate: merged is of networks",
	} {
		var list modelList
		err := list.Set("[" + text + "]")
		if err == nil {
			err = list[0].Check()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
