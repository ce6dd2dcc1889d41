package modellist

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/dnn/onnx"
	"github.com/prefillonly/prefillonly/engine/dnn/onnx/onnxtest"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/merging/generations"
)

// mergedEye is a network's file, and the directory of a merge that has generations of it, each with another red.
func mergedEye(t *testing.T, reds ...float32) (file, dir string) {
	t.Helper()
	file, dir = filepath.Join(t.TempDir(), "eye.onnx"), filepath.Join(t.TempDir(), "merged")
	for i, red := range reds {
		content := onnxtest.File(17, onnxtest.Eye(1))
		if err := onnx.Patch(content, map[string][]float32{"red": {0, red, 0, 0, 0, 0}}); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			write(t, file, content)
		}
		text, err := json.Marshal(generations.Merge{Generation: i, Models: []generations.Merged{{Name: "door", File: "door.onnx", Original: file, OriginalSHA256: "0", SHA256: string('0' + rune(i))}}})
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, generationName(i), "door.onnx"), content)
		write(t, filepath.Join(dir, generationName(i), "merge.json"), text)
	}
	return file, dir
}

func generationName(i int) string { return "000" + string('0'+rune(i)) }

func write(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func makeCurrent(t *testing.T, dir string, i int) {
	t.Helper()
	link := filepath.Join(dir, "current")
	_ = os.Remove(link)
	if err := os.Symlink(generationName(i), link); err != nil {
		t.Fatal(err)
	}
}

// TestMergedNetworks: what is current is served under the network's name, and the network as it was beside it; a list that processes of a server read stays as it was
// resolved, whatever has become current.
func TestMergedNetworks(t *testing.T) {
	file, dir := mergedEye(t, 1, .5, .7)
	for _, name := range []string{"door", "elsewhere"} { // by the name in the merge, and by the file
		_ = os.Remove(filepath.Join(dir, "current"))
		declared := config.Model{Names: []string{name, "alias"}, Path: file, Decoder: "ssd", Image: config.Image{Scale: []float64{255}}, Merged: dir, Drift: config.Drift{Sample: .5}}
		cfg, failed, err := prepared(t, declared)
		if err != nil || len(cfg.Models) != 2 || failed[0] != nil || failed[1] != nil || cfg.Models[0].Path != file {
			t.Fatalf("before a success: %v, %q, %+v", err, failed, cfg)
		}
		makeCurrent(t, dir, 1)
		if now := Superseding(cfg.Models); len(now) != 1 || now[0] != filepath.Join(dir, "0001", "door.onnx") {
			t.Errorf("%q is current", now)
		}
		if cfg, _, err = prepared(t, declared); err != nil {
			t.Fatal(err)
		}
		merged, original := cfg.Models[0], cfg.Models[1]
		if merged.Path != filepath.Join(dir, "0001", "door.onnx") || merged.Names[1] != "alias" || merged.Keep.When != config.KeepAlways || Superseding(cfg.Models) != nil {
			t.Errorf("merged: %+v", merged)
		}
		if original.Path != file || len(original.Names) != 1 || original.Names[0] != name+"@original" || original.Keep.When != config.KeepOnDemand || original.Merged != "" ||
			original.Decoder != "ssd" || original.Drift != (config.Drift{}) || !IsOriginal(cfg, &original) || IsOriginal(cfg, &merged) {
			t.Errorf("original: %+v", original)
		}
		makeCurrent(t, dir, 2)
		loaded, err := config.Load(writeList(t, cfg), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Resolve(&loaded.Config, Cached); err != nil || len(loaded.Models) != 2 || loaded.Models[0].Path != merged.Path || len(Superseding(loaded.Models)) != 1 {
			t.Errorf("read by another process: %v, %+v", err, loaded.Models)
		}
		makeCurrent(t, dir, 0)
		if cfg, _, err = prepared(t, declared); err != nil || cfg.Models[0].Path != file {
			t.Errorf("reverted: %v, %+v", err, cfg.Models)
		}
		if dirs := CurrentGenerations(cfg.Models); len(dirs) != 1 || dirs[0] != filepath.Join(dir, "0000") {
			t.Errorf("%q", dirs)
		}
	}
}

func writeList(t *testing.T, cfg *config.Config) string {
	t.Helper()
	if err := Write(cfg); err != nil {
		t.Fatal(err)
	}
	return File(cfg)
}

// TestWrongMergesAreRefused with the directory, the model or the file.
func TestWrongMergesAreRefused(t *testing.T) {
	file, dir := mergedEye(t, 1, .5)
	makeCurrent(t, dir, 1)
	other := filepath.Join(t.TempDir(), "other.onnx")
	larger := onnxtest.Eye(1)
	larger.Constants = append(larger.Constants, onnxtest.Floats("more", []int{1}, 1))
	write(t, other, onnxtest.File(17, larger))
	outside := t.TempDir()
	if err := os.Symlink("/tmp", filepath.Join(outside, "current")); err != nil {
		t.Fatal(err)
	}
	_, damaged := mergedEye(t, 1)
	write(t, filepath.Join(damaged, "0000", "merge.json"), []byte("{"))
	makeCurrent(t, damaged, 0)
	for _, c := range []struct {
		m    config.Model
		want string
	}{
		{config.Model{Names: []string{"x"}, Path: other, Merged: dir}, "model x: merged: " + dir + " has no model that is called x, or was " + other},
		{config.Model{Names: []string{"door"}, Path: other, Merged: dir}, "it is another network's"},
		{config.Model{Names: []string{"door"}, Path: file, Merged: outside}, "leads to /tmp"},
		{config.Model{Names: []string{"door"}, Path: file, Merged: damaged}, "merge.json"},
		{config.Model{Names: []string{"x"}, Path: demoDir(t), Merged: dir}, "is no network"},
	} {
		if _, _, err := prepared(t, c.m); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q in it", err, c.want)
		}
		if _, failed, err := prepared(t, config.Model{Names: []string{"good"}, Path: file}, c.m); err != nil || failed[0] != nil || failed[1] == nil {
			t.Errorf("beside another one: %v, %q", err, failed)
		}
	}
}
