package model

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// recorder remembers the tensors that a model asks of a random source.
type recorder struct {
	weights.Random
	tensors []kernels.HostTensor
}

func (r *recorder) Tensor(name string, shape ...int) (kernels.HostTensor, error) {
	t, err := r.Random.Tensor(name, shape...)
	r.tensors = append(r.tensors, t)
	return t, err
}

// writeCheckpoint makes a directory of testdata a whole checkpoint with so many shards.
func writeCheckpoint(t *testing.T, name string, shards int, edit func([]kernels.HostTensor) []kernels.HostTensor) string {
	t.Helper()
	config, source := goldenSource(t, name)
	r := &recorder{Random: source}
	m, err := New(config, r, ref.New(), Options{MaxLen: 16})
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
	tensors := r.tensors
	if edit != nil {
		tensors = edit(tensors)
	}
	dir := t.TempDir()
	raw, err := os.ReadFile(filepath.Join("testdata", name, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, raw []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("config.json", raw)
	index := map[string]string{}
	for i := range shards {
		file := "model.safetensors"
		if shards > 1 {
			file = "shard-" + string(rune('a'+i)) + ".safetensors"
		}
		part := tensors[i*len(tensors)/shards : (i+1)*len(tensors)/shards]
		if err := weights.WriteFile(filepath.Join(dir, file), part); err != nil {
			t.Fatal(err)
		}
		for _, tensor := range part {
			index[tensor.Name] = file
		}
	}
	if shards > 1 {
		raw, err := json.Marshal(map[string]any{"weight_map": index})
		if err != nil {
			t.Fatal(err)
		}
		write("model.safetensors.index.json", raw)
	}
	return dir
}

// TestLoadEqualsRandomSource checks that a checkpoint on disk gives the bits of its weights in
// memory: each type, one file or several, on both backends.
func TestLoadEqualsRandomSource(t *testing.T) {
	eachBackend(t, func(t *testing.T, b kernels.Backend) {
		for name, shards := range map[string]int{"llama-bias": 1, "mistral": 1, "qwen2": 3, "qwen3-wide": 4} {
			item := wire.TokenItem{Tokens: goldenPrompt(50, 250), Ask: engine.Ask{Top: 20}}
			want := answer(t, newModel(t, name, b, bitsOptions), item)
			var last, all int64
			opts := bitsOptions
			opts.Progress = func(done, total int64) {
				if done < last || done > total {
					t.Errorf("%s: progress of %d of %d bytes after %d", name, done, total, last)
				}
				last, all = done, total
			}
			m, err := Load(writeCheckpoint(t, name, shards, nil), b, opts)
			if err != nil {
				t.Fatal(err)
			}
			if last != all || all == 0 {
				t.Errorf("%s: progress ended at %d of %d bytes", name, last, all)
			}
			equalAnswers(t, name+" from disk", answer(t, m, item), want)
			m.Close()
		}
	})
}

func TestLoadRefuses(t *testing.T) {
	tensor := func(name string, typ kernels.DType, shape ...int) kernels.HostTensor {
		made, err := weights.Random{Type: typ}.Tensor(name, shape...)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	const oddName = "model.layers.1.self_attn.q_proj.bias"
	for want, edit := range map[string]func([]kernels.HostTensor) []kernels.HostTensor{
		`tensor "` + oddName + `" has no place in the model`: func(ts []kernels.HostTensor) []kernels.HostTensor {
			return append(ts, tensor(oddName, kernels.BF16, 96))
		},
		`missing tensor "lm_head.weight"`: func(ts []kernels.HostTensor) []kernels.HostTensor { return ts[:len(ts)-1] },
		`tensor "lm_head.weight" has shape [330 96], want [331 96] by config.json`: func(ts []kernels.HostTensor) []kernels.HostTensor {
			return append(ts[:len(ts)-1], tensor("lm_head.weight", kernels.BF16, 330, 96))
		},
	} {
		dir := writeCheckpoint(t, "llama2", 1, edit)
		if _, err := Load(dir, ref.New(), Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to hold %q", err, want)
		}
	}
	for _, file := range []string{"shard-b.safetensors", "config.json"} {
		dir := writeCheckpoint(t, "llama2", 2, nil)
		if err := os.Remove(filepath.Join(dir, file)); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(dir, ref.New(), Options{}); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("without %s: error %v", file, err)
		}
	}
}

// TestLoadIgnoresWhatChangesNothing: Llama 2's stored frequencies, and a tied head stored again.
func TestLoadIgnoresWhatChangesNothing(t *testing.T) {
	extra, err := weights.Random{}.Tensor("model.layers.0.self_attn.rotary_emb.inv_freq", 8)
	if err != nil {
		t.Fatal(err)
	}
	head, err := weights.Random{}.Tensor("lm_head.weight", 389, 112)
	if err != nil {
		t.Fatal(err)
	}
	dir := writeCheckpoint(t, "qwen2", 1, func(ts []kernels.HostTensor) []kernels.HostTensor { return append(ts, extra, head) })
	m, err := Load(dir, ref.New(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
}

// cutting is a checkpoint whose file loses its end while it is being loaded.
type cutting struct {
	*weights.Checkpoint
	file string
}

func (c cutting) Tensor(name string, shape ...int) (kernels.HostTensor, error) {
	if strings.HasPrefix(name, "model.layers.1.") {
		if err := os.Truncate(c.file, 1<<12); err != nil {
			return kernels.HostTensor{}, err
		}
	}
	return c.Checkpoint.Tensor(name, shape...)
}

// TestLoadOfAFileCutShort: the loss is an error that names the file, on every backend.
func TestLoadOfAFileCutShort(t *testing.T) {
	eachBackend(t, func(t *testing.T, b kernels.Backend) {
		dir := writeCheckpoint(t, "qwen2", 1, nil)
		config, err := weights.ReadConfig(dir)
		if err != nil {
			t.Fatal(err)
		}
		c, err := weights.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		file := filepath.Join(dir, "model.safetensors")
		if _, err := New(config, cutting{c, file}, b, bitsOptions); err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "offset") {
			t.Errorf("New = %v, want the file's name and an offset", err)
		}
	})
}

func TestOptionsRefuse(t *testing.T) {
	config, source := goldenSource(t, "llama2")
	for want, opts := range map[string]Options{
		"maximum length 1025 is outside 1..1024": {MaxLen: 1025},
		"maximum length -1 is outside":           {MaxLen: -1},
		"block size 24 is not":                   {BlockTokens: 24},
		"none may be negative":                   {ChunkRows: -1},
	} {
		if _, err := New(config, source, ref.New(), opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want it to hold %q", opts, err, want)
		}
	}
}
