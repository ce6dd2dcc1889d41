package config

import (
	"strings"
	"testing"
)

// TestPipelinesInYAML: what a list of models says of pipelines is read, shown and read again.
func TestPipelinesInYAML(t *testing.T) {
	var list modelList
	text := `[{path: ./models, pipeline: ocr, networks: {detect: "a b.onnx", recognize: /x/rec.onnx}, alphabet: keys.txt}]`
	if err := list.Set(text); err != nil {
		t.Fatal(err)
	}
	m := list[0]
	if m.Pipeline != PipelineOCR || m.Networks != (Networks{Detect: "a b.onnx", Recognize: "/x/rec.onnx"}) || m.Alphabet != "keys.txt" || m.Check() != nil {
		t.Errorf("got %+v", m)
	}
	var again modelList
	if err := again.Set(list.String()); err != nil || again.String() != list.String() || again[0].Networks != m.Networks {
		t.Errorf("%s became %s, %v", list.String(), again.String(), err)
	}
}

func TestWhatFitsNoPipelineIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{pipeline: video}`:                         `invalid pipeline "video": want ocr or speech`,
		`{networks: {detect: a}}`:                   "networks are for a pipeline",
		`{alphabet: a}`:                             "alphabet is for a pipeline",
		`{pipeline: speech, networks: {detect: a}}`: `invalid networks {detect: "a"}: pipeline speech has recognize, silence`,
		`{pipeline: ocr, networks: {detected: a}}`:  `unknown key "detected"; the nearest is "detect"`,
		`{pipeline: ocr, networks: a.onnx}`:         "want a map such as {detect: det.onnx, recognize: rec.onnx}",
		`{pipeline: ocr, task: generate}`:           "invalid task generate: pipeline ocr is of networks",
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

func TestPartsByNames(t *testing.T) {
	det := Pipelines[PipelineOCR][0]
	for file, want := range map[string]bool{"PP-OCRv6_det_small.onnx": true, "DET.onnx": true, "a/b-det.v2.onnx": true, "detail.onnx": false, "det/rec.onnx": false, "undet.onnx": false} {
		if det.Has(file) != want {
			t.Errorf("%s has det: %v, want %v", file, !want, want)
		}
	}
}
