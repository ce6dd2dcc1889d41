package host

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/encoder"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/executor/runnertest"
	"github.com/prefillonly/prefillonly/engine/model"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/weights/store"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// testConfig is a model of four layers.
var testConfig = weights.Config{
	Architectures: []string{"LlamaForCausalLM"}, ModelType: "llama", HiddenAct: "silu",
	VocabSize: 300, HiddenSize: 64, IntermediateSize: 96, NumHiddenLayers: 4, NumAttentionHeads: 4, MaxPositionEmbeddings: 4096,
}

// textsConfig is an encoder of three layers.
var textsConfig = weights.Config{
	Architectures: []string{"BertModel"}, ModelType: "bert", HiddenAct: "gelu",
	VocabSize: 200, HiddenSize: 64, IntermediateSize: 96, NumHiddenLayers: 3, NumAttentionHeads: 2, MaxPositionEmbeddings: 128,
}

// recorder remembers the tensors that a model asks of a random source. Those whose names begin with tuned are
// of another seed.
type recorder struct {
	weights.Random
	tuned   string
	tensors []kernels.HostTensor
}

func (r *recorder) Tensor(name string, shape ...int) (kernels.HostTensor, error) {
	random := r.Random
	if r.tuned != "" && strings.HasPrefix(name, r.tuned) {
		random.Seed += 1000
	}
	t, err := random.Tensor(name, shape...)
	r.tensors = append(r.tensors, t)
	return t, err
}

// record asks for all tensors of a model.
func (r *recorder) record(c weights.Config) error {
	if !encoder.IsEncoder(c) {
		m, err := model.New(c, r, ref.New(), model.Options{MaxLen: 16})
		if err == nil {
			m.Close()
		}
		return err
	}
	m, err := encoder.Open(c, r, store.New(ref.New()), encoder.Options{})
	if err != nil {
		return err
	}
	defer m.Close()
	for i := range m.Chunks() {
		if err := m.LoadChunk(i); err != nil {
			return err
		}
	}
	return nil
}

// write makes a checkpoint of random weights in a new directory.
func write(t testing.TB, c weights.Config, seed uint64) string { return writeTuned(t, c, seed, "") }

// writeTuned is write, but for tensors whose names begin so.
func writeTuned(t testing.TB, c weights.Config, seed uint64, tuned string) string {
	t.Helper()
	r := &recorder{Random: weights.Random{Seed: seed, Type: kernels.BF16}, tuned: tuned}
	if err := r.record(c); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	raw, err := json.Marshal(map[string]any{
		"architectures": c.Architectures, "model_type": c.ModelType, "hidden_act": c.HiddenAct, "vocab_size": c.VocabSize, "hidden_size": c.HiddenSize,
		"intermediate_size": c.IntermediateSize, "num_hidden_layers": c.NumHiddenLayers, "num_attention_heads": c.NumAttentionHeads,
		"max_position_embeddings": c.MaxPositionEmbeddings,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), raw, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := weights.WriteFile(filepath.Join(dir, "model.safetensors"), r.tensors); err != nil {
		t.Fatal(err)
	}
	return dir
}

// checkpoints are those of two models, base and wide.
func checkpoints(t testing.TB) map[string]string {
	wide := testConfig
	wide.HiddenSize, wide.NumHiddenLayers, wide.VocabSize = 128, 3, 500
	return map[string]string{"base": write(t, testConfig, 1), "wide": write(t, wide, 2)}
}

func testOptions() Options {
	return Options{
		Backend: ref.New(), Limits: Limits{Device: 64 << 20, Host: 64 << 20, Ranks: 1, CacheBytes: 8 << 20},
		Passes: model.Options{ChunkRows: 64}, Log: zap.NewNop(),
	}
}

func testModels(dirs map[string]string) []Model {
	return []Model{{Name: "base", Path: dirs["base"], Prompts: Prompts{MaxLen: 400, BlockTokens: 32}}, {Name: "wide", Path: dirs["wide"], Prompts: Prompts{MaxLen: 300, BlockTokens: 16}}}
}

func open(t testing.TB, o Options, models []Model) *Host {
	t.Helper()
	h, err := Open(o, models)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// loadAll makes a model's weights resident.
func loadAll(t testing.TB, h *Host, name string) {
	t.Helper()
	m := infoOf(t, h, name)
	if m.Reason != "" {
		t.Fatal(m.Reason)
	}
	for _, w := range m.Weights {
		if err := executor.Load(h, name, w); err != nil {
			t.Fatal(err)
		}
	}
}

func infoOf(t testing.TB, h *Host, name string) wire.ModelInfo {
	t.Helper()
	for _, m := range h.Info().Models {
		if m.Name == name {
			return m
		}
	}
	t.Fatalf("no model %s", name)
	return wire.ModelInfo{}
}

// ask is the answer to one prompt.
func ask(t testing.TB, h *Host, name string) *engine.Answer {
	t.Helper()
	p := begin(t, h, name)
	defer p.Close()
	return finish(t, p)
}

func begin(t testing.TB, h *Host, name string) executor.Pass {
	t.Helper()
	item := &wire.TokenItem{Ask: engine.Ask{Top: 5}}
	for i := range 150 {
		item.Tokens = append(item.Tokens, engine.TokenID(7*i%300))
	}
	p, err := h.Begin(&wire.Run{Model: name, Items: []wire.RunItem{{Work: item}}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func finish(t testing.TB, p executor.Pass) *engine.Answer {
	t.Helper()
	for done := false; !done; {
		var err error
		if done, err = p.Step(); err != nil {
			t.Fatal(err)
		}
	}
	return p.Results()[0].Output.(*engine.TokenOutput).Answer
}

// TestRunner holds a host of two models to the suite of runners.
func TestRunner(t *testing.T) {
	dirs := checkpoints(t)
	runnertest.Run(t, func(t *testing.T) executor.Runner {
		h, err := Open(testOptions(), testModels(dirs))
		if err != nil {
			t.Fatal(err)
		}
		return h
	})
}
