package host

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// TestModelsThatFail: each has its reason in Info, and a refusal for its passes and loads, and the others run. Where
// none can be run, or the only one cannot, that is the error.
func TestModelsThatFail(t *testing.T) {
	dirs := checkpoints(t)
	cut := write(t, testConfig, 3)
	if err := os.Truncate(filepath.Join(cut, "model.safetensors"), 100); err != nil {
		t.Fatal(err)
	}
	odd := write(t, testConfig, 4)
	if err := os.WriteFile(filepath.Join(odd, "config.json"), []byte(`{"architectures":["OddForCausalLM"]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	huge := testConfig
	huge.IntermediateSize = 1 << 15
	bad := map[string]struct {
		model  Model
		reason []string
	}{
		"missing":     {Model{Path: filepath.Join(cut, "none")}, []string{"none"}},
		"cut":         {Model{Path: cut}, []string{"model.safetensors", "truncated"}},
		"odd":         {Model{Path: odd}, []string{"OddForCausalLM"}},
		"too large":   {Model{Path: write(t, huge, 5)}, []string{"64 MiB", "available", "the weights take 97 MiB"}},
		"too long":    {Model{Path: dirs["base"], Prompts: Prompts{MaxLen: 1 << 30}}, []string{"max_position_embeddings"}},
		"unprofiled":  {Model{Path: dirs["base"], Profile: filepath.Join(cut, "profile.json")}, []string{"profile.json"}},
		"no own work": {Model{Path: dirs["base"], Prompts: Prompts{MaxLen: 1 << 12, BlockTokens: 17}}, []string{"multiple of 16"}},
	}
	var models []Model
	for name, c := range bad {
		c.model.Name = name
		models = append(models, c.model)
		_, err := Open(testOptions(), []Model{c.model})
		for _, want := range c.reason {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s alone: %v, want %q in it", name, err, want)
			}
		}
	}
	if _, err := Open(testOptions(), models); err == nil {
		t.Error("a host of models that cannot be run")
	}
	partial := testOptions()
	partial.Partial = true
	if n := len(open(t, partial, models).Info().Models); n != len(models) {
		t.Errorf("where other models are elsewhere, a host tells of %d, want %d", n, len(models))
	}
	models = append(models, testModels(dirs)...)
	h := open(t, testOptions(), models)
	for i, m := range h.Info().Models {
		if m.Name != models[i].Name {
			t.Errorf("model %d is %s, want %s", i, m.Name, models[i].Name)
		}
		for _, want := range bad[m.Name].reason {
			if !strings.Contains(m.Reason, want) || m.Tokens != nil {
				t.Errorf("%s: %q, want %q in it", m.Name, m.Reason, want)
			}
		}
		if bad[m.Name].reason == nil {
			loadAll(t, h, m.Name)
			ask(t, h, m.Name)
			continue
		}
		if _, err := h.Begin(&wire.Run{Model: m.Name}); engineCode(err) != engine.CodeUnavailable || !strings.Contains(err.Error(), m.Reason) {
			t.Errorf("%s: a pass of it: %v", m.Name, err)
		}
		if err := executor.Load(h, m.Name, 0); engineCode(err) != engine.CodeUnavailable {
			t.Errorf("%s: a load of it: %v", m.Name, err)
		}
	}
}

// TestSetModels: models come and go, and what stays keeps its pages and weights, and answers as before. A pass
// that is open ends well though its model is gone, and that gives its memory back then.
func TestSetModels(t *testing.T) {
	dirs := checkpoints(t)
	models := testModels(dirs)
	third := Model{Name: "third", Path: write(t, testConfig, 3), Prompts: Prompts{MaxLen: 400, BlockTokens: 32}}
	h := open(t, testOptions(), models)
	loadAll(t, h, "base")
	loadAll(t, h, "wide")
	answers := map[string]*engine.Answer{"base": ask(t, h, "base"), "wide": ask(t, h, "wide")}
	before := h.Info()
	pass := begin(t, h, "wide")
	if _, err := pass.Step(); err != nil {
		t.Fatal(err)
	}
	keep := models[0]
	keep.Keep, keep.Idle = wire.KeepIdle, time.Minute
	if h.SetModels([]Model{third, keep}) {
		t.Error("a change is left over")
	}
	info := h.Info()
	if len(info.Models) != 2 || info.Models[0].Name != "third" || info.Models[0].Reason != "" || info.Models[1].Keep != wire.KeepIdle || info.Models[1].Idle != time.Minute {
		t.Fatalf("models %+v", info.Models)
	}
	if !reflect.DeepEqual(info.Models[1].Weights, before.Models[0].Weights) || info.Models[1].Tokens.NumBlocks != before.Models[0].Tokens.NumBlocks || len(info.Weights) <= len(before.Weights) {
		t.Errorf("the model that stays is %+v, it was %+v", info.Models[1], before.Models[0])
	}
	for _, w := range info.Models[1].Weights {
		if !info.Weights[w].Resident {
			t.Errorf("piece %d of the model that stays is gone", w)
		}
	}
	if _, err := h.Begin(&wire.Run{Model: "wide"}); engineCode(err) != engine.CodeUnavailable {
		t.Errorf("a pass of the model that is gone: %v", err)
	}
	room := h.Info().Memory
	if got := finish(t, pass); !reflect.DeepEqual(got, answers["wide"]) {
		t.Errorf("the pass of the model that is gone: %+v, before %+v", got, answers["wide"])
	}
	pass.Close()
	pass.Close()
	if now := h.Info().Memory; now <= room {
		t.Errorf("room for %d bytes of weights after the last pass, %d before", now, room)
	}
	loadAll(t, h, "third")
	ask(t, h, "third")
	if got := ask(t, h, "base"); !reflect.DeepEqual(got, answers["base"]) {
		t.Errorf("the model that stays: %+v, before %+v", got, answers["base"])
	}
	h.Ahead(t.Context(), models)
	if h.SetModels(models) {
		t.Error("a change is left over")
	}
	loadAll(t, h, "wide")
	for name, want := range answers {
		if got := ask(t, h, name); !reflect.DeepEqual(got, want) {
			t.Errorf("%s again: %+v, before %+v", name, got, want)
		}
	}
	h.SetModels(nil)
	if h.store.Bytes() != 0 || len(h.Info().Models) != 0 {
		t.Errorf("%d bytes of weights of no model", h.store.Bytes())
	}
}

// TestSetModelsWhereMemoryIsShort: a model that does not fit beside those that are there is refused and takes
// nothing; one that needs more working memory gets it while passes are open, which go on in the old one.
func TestSetModelsWhereMemoryIsShort(t *testing.T) {
	dirs := checkpoints(t)
	models := testModels(dirs)
	h := open(t, testOptions(), models[:1])
	loadAll(t, h, "base")
	want := ask(t, h, "base")
	pass := begin(t, h, "base")
	if _, err := pass.Step(); err != nil {
		t.Fatal(err)
	}
	longest := Model{Name: "longest", Path: dirs["wide"], Prompts: Prompts{MaxLen: 3000}}
	none := Model{Name: "none", Path: dirs["wide"], Prompts: Prompts{MaxLen: 4000}}
	h.o.Limits.Device = 64 << 20
	before := h.Info().Memory
	h.SetModels([]Model{models[0], longest})
	if m := infoOf(t, h, "longest"); m.Reason != "" || len(h.areas[prompts]) != 2 || h.Info().Memory >= before {
		t.Fatalf("%q, %d working memories, room for %d bytes, before for %d", m.Reason, len(h.areas[prompts]), h.Info().Memory, before)
	}
	loadAll(t, h, "longest")
	ask(t, h, "longest")
	if got := finish(t, pass); !reflect.DeepEqual(got, want) {
		t.Errorf("the pass that was open: %+v, before %+v", got, want)
	}
	pass.Close()
	if len(h.areas[prompts]) != 1 {
		t.Errorf("%d working memories after the last pass of the old one", len(h.areas[prompts]))
	}
	if got := ask(t, h, "base"); !reflect.DeepEqual(got, want) {
		t.Errorf("in the new working memory: %+v, before %+v", got, want)
	}
	h.o.Limits.Device = h.areas[prompts][0].bytes + h.store.Bytes() + 12<<20
	room := h.weightRoom()
	h.SetModels([]Model{models[0], longest, none})
	m := infoOf(t, h, "none")
	if m.Reason == "" || h.weightRoom() != room || !strings.Contains(m.Reason, "MiB") {
		t.Errorf("%q, room for %d bytes, before for %d", m.Reason, h.weightRoom(), room)
	}
	ask(t, h, "base")
	ask(t, h, "longest")
}

// TestSetModelsOfChangedFiles: a model whose files have changed is removed first, and only then there as
// what it is now.
func TestSetModelsOfChangedFiles(t *testing.T) {
	dirs := checkpoints(t)
	models := testModels(dirs)
	h := open(t, testOptions(), models)
	loadAll(t, h, "base")
	before, print := ask(t, h, "base"), infoOf(t, h, "base").Fingerprint
	if err := os.Rename(filepath.Join(write(t, testConfig, 9), "model.safetensors"), filepath.Join(dirs["base"], "model.safetensors")); err != nil {
		t.Fatal(err)
	}
	if !h.SetModels(models) || len(h.Info().Models) != 1 {
		t.Fatalf("models %+v after the first call", h.Info().Models)
	}
	if h.SetModels(models) || infoOf(t, h, "base").Fingerprint == print {
		t.Fatalf("the model is %+v", infoOf(t, h, "base"))
	}
	loadAll(t, h, "base")
	if reflect.DeepEqual(ask(t, h, "base"), before) {
		t.Error("the model answers as before its file was replaced")
	}
}

// lost is a device that is.
type lost struct{ error }

func (lost) DeviceLost() bool { return true }

// TestDeviceLost: the loss of a device is no model's fault.
func TestDeviceLost(t *testing.T) {
	var memory *MemoryError
	if err := memoryError(lost{errors.New("gone")}); errors.As(err, &memory) {
		t.Errorf("%v is a want of memory", err)
	}
}

// TestUnreadAhead: why a model's files could not be read ahead is told by SetModels, which does not read them again.
func TestUnreadAhead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "n.onnx")
	if err := os.WriteFile(path, []byte("no network"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := open(t, testOptions(), nil)
	models := []Model{{Name: "broken", Path: path}}
	h.Ahead(t.Context(), models)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	h.SetModels(models)
	if reason := h.Info().Models[0].Reason; !strings.Contains(reason, "not an ONNX file") {
		t.Errorf("the reason is %q", reason)
	}
}
