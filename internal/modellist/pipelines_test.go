package modellist

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/dnn/onnx/onnxtest"
	"github.com/prefillonly/prefillonly/internal/config"
)

// writeFiles writes files of networks of steps and of symbols below a new directory.
func writeFiles(t *testing.T, names ...string) (dir string) {
	t.Helper()
	steps := onnxtest.File(17, onnxtest.Graph{
		Inputs:  []onnxtest.Value{{Name: "x", Type: onnxtest.Float32, Dims: []any{"n", "t", 3}}},
		Outputs: []onnxtest.Value{{Name: "y", Type: onnxtest.Float32, Dims: []any{"n", "t", 3}}},
		Nodes:   []onnxtest.Node{{Op: "Relu", In: []string{"x"}, Out: []string{"y"}}},
	})
	dir = t.TempDir()
	for _, name := range names {
		data := steps
		if strings.HasSuffix(name, ".txt") {
			data = []byte("a\nb\r\n")
		}
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, data, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestPipelinesBecomeTheirNetworks: the pool has a model for each network, with what the pipeline says of all, and a list that was
// expanded, as it is handed to the processes of a server, stays as it is.
func TestPipelinesBecomeTheirNetworks(t *testing.T) {
	dir := writeFiles(t, "v6_det_small.onnx", "v6-rec.onnx", "cls.onnx", "sound/hears.onnx", "keys.txt", "sound/keys.txt", "detail.onnx")
	cfg, failed, err := prepared(t,
		config.Model{Path: dir, Names: []string{"read", "alias"}, Pipeline: config.PipelineOCR, Alphabet: "keys.txt", Devices: "cpu", WorkMemory: 5 << 20},
		config.Model{Path: demoDir(t), Names: []string{"text"}},
		config.Model{Path: filepath.Join(dir, "sound"), Pipeline: config.PipelineSpeech, Alphabet: "keys.txt"},
		config.Model{Path: filepath.Join(dir, "cls.onnx"), Pipeline: config.PipelineOCR, Alphabet: "keys.txt", Networks: config.Networks{Recognize: "sound/hears.onnx"}})
	if err != nil || slices.ContainsFunc(failed, func(err error) bool { return err != nil }) {
		t.Fatal(failed, err)
	}
	type row struct{ name, file, decoder, pipeline, devices string }
	var got []row
	for _, m := range cfg.Models {
		if m.Task == config.TaskInfer {
			file, _ := filepath.Rel(dir, m.Path)
			got = append(got, row{m.Names[0], file, m.Decoder, m.Pipeline, m.Devices})
		}
	}
	want := []row{
		{"read", "v6_det_small.onnx", "", "ocr", "cpu"}, {"read/direct", "cls.onnx", "", "", "cpu"}, {"read/recognize", "v6-rec.onnx", "ctc", "", "cpu"},
		{"sound", "sound/hears.onnx", "ctc", "speech", ""},
		{"cls", "cls.onnx", "", "ocr", ""}, {"cls/direct", "cls.onnx", "", "", ""}, {"cls/recognize", "sound/hears.onnx", "ctc", "", ""},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v,\nwant %v", got, want)
	}
	if m := cfg.Models[0]; m.Names[1] != "alias" || cfg.Models[2].WorkMemory != 5<<20 || m.Keep != cfg.Models[2].Keep {
		t.Errorf("got %+v and %+v", m, cfg.Models[2])
	}
	for _, m := range cfg.Models {
		if m.Pipeline == "" {
			continue
		}
		if symbols, err := Alphabet(&m); err != nil || !slices.Equal(symbols, []string{"a", "b"}) {
			t.Errorf("%s: %q, %v", m.Names[0], symbols, err)
		}
	}
	again, failed, err := prepared(t, cfg.Models...)
	if err != nil || slices.ContainsFunc(failed, func(err error) bool { return err != nil }) || config.ModelsYAML(again.Models) != config.ModelsYAML(cfg.Models) {
		t.Errorf("expanded again: %v, %v\n%s\nwant\n%s", failed, err, config.ModelsYAML(again.Models), config.ModelsYAML(cfg.Models))
	}
}

// TestIncompletePipelinesAreRefused, with the folder or file, and the key that helps; other models are served.
func TestIncompletePipelinesAreRefused(t *testing.T) {
	dir := writeFiles(t, "det.onnx", "a_rec.onnx", "b_rec.onnx", "keys.txt", "empty/keys.txt", "sound/a.onnx")
	sound := filepath.Join(dir, "sound")
	for name, c := range map[string]struct {
		m    config.Model
		want string
	}{
		"two":      {config.Model{Path: dir, Pipeline: config.PipelineOCR}, dir + ` has 2 files of a network with "rec" in its name, want one: set networks: {recognize: FILE}`},
		"none":     {config.Model{Path: filepath.Join(dir, "empty"), Pipeline: config.PipelineOCR}, `has 0 files of a network with "det"`},
		"nowhere":  {config.Model{Path: filepath.Join(dir, "no"), Pipeline: config.PipelineSpeech}, "pipeline speech: want a folder with its networks: stat " + dir},
		"alphabet": {config.Model{Path: sound, Pipeline: config.PipelineSpeech}, `a.onnx does not name its symbols (no "character" in its metadata): set alphabet`},
		"file":     {config.Model{Path: sound, Pipeline: config.PipelineSpeech, Alphabet: "no.txt"}, "alphabet: stat " + sound + "/no.txt"},
		"missing":  {config.Model{Path: dir, Pipeline: config.PipelineOCR, Networks: config.Networks{Recognize: "c_rec.onnx"}, Alphabet: "keys.txt"}, "c_rec.onnx"},
	} {
		c.m.Names = []string{"m"}
		_, failed, err := prepared(t, c.m, config.Model{Names: []string{"other"}, Path: demoDir(t)})
		if err != nil || failed[len(failed)-1] != nil {
			t.Errorf("%s: the other model: %v, %v", name, failed, err)
			continue
		}
		if all := errors.Join(failed...); all == nil || !strings.Contains(all.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, all, c.want)
		}
	}
}

// TestAlphabetOfMetadata: symbols stand in a network's file as PP-OCR's have them, one a line, of which one may be a space.
func TestAlphabetOfMetadata(t *testing.T) {
	dir := writeFiles(t, "a.onnx")
	file := filepath.Join(dir, "a.onnx")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	key, value := "character", "a\n \n字\n🛅"
	entry := "\x0a" + string(rune(len(key))) + key + "\x12" + string(rune(len(value))) + value
	data = append(data, "\x72"+string(rune(len(entry)))+entry...) // metadata_props of ModelProto
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Alphabet(&config.Model{Networks: config.Networks{Recognize: file}})
	if want := []string{"a", " ", "字", "🛅"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
