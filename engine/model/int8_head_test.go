package model

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/model/architecture"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// scratchOf is a backend that notes what memory it is asked to plan for.
type scratchOf struct {
	kernels.Backend
	planned map[int]kernels.LargestCodes // by the widest output
}

func (b scratchOf) ScratchBytes(rows, maxIn, maxOut int, largest kernels.LargestCodes) int64 {
	b.planned[maxOut] = largest
	return b.Backend.ScratchBytes(rows, maxIn, maxOut, largest)
}

// TestInt8HeadMemory: the head takes a byte an element and a scale a row, is no view of its file, and its codes are planned for
// where its logits are.
func TestInt8HeadMemory(t *testing.T) {
	const vocab, width = 517, 128
	eachBackend(t, func(t *testing.T, b kernels.Backend) {
		planned := scratchOf{b, map[int]kernels.LargestCodes{}}
		config, _ := goldenSource(t, "llama3-int8-head")
		m, err := describeModel(config, planned, Options{})
		if err != nil {
			t.Fatal(err)
		}
		chunks := m.weightChunks()
		parts := chunks[len(chunks)-1].Parts
		if head := parts[len(parts)-1]; head.Kind != "table" || head.InPlace || head.Bytes != vocab*width+4*vocab {
			t.Errorf("the head is %q of %d bytes, in place: %t", head.Kind, head.Bytes, head.InPlace)
		}
		m.workSize()
		if got, want := planned.planned[vocab], (kernels.LargestCodes{I8: vocab * width}); got != want {
			t.Errorf("memory for logits is planned with codes %+v, want %+v", got, want)
		}
		loaded, err := Load(writeCheckpoint(t, "llama3-int8-head", 2, nil), b, bitsOptions)
		if err != nil {
			t.Fatal(err)
		}
		defer loaded.Close()
		if held := loaded.head.Bytes(); held < vocab*width || held > vocab*width*5/4+64*vocab {
			t.Errorf("the head holds %d bytes, of %d codes", held, vocab*width)
		}
	})
}

// TestInt8HeadTied: an embedding that is the head is no matrix in codes, whatever is ignored.
func TestInt8HeadTied(t *testing.T) {
	config, source := goldenSource(t, "qwen2-int8-head")
	config.TieWordEmbeddings = true
	item := wire.TokenItem{Tokens: goldenPrompt(50, 250), Ask: engine.Ask{Top: 20}}
	m, err := New(config, source, ref.New(), bitsOptions)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	equalAnswers(t, "tied", answer(t, m, item), answer(t, newModel(t, "qwen2-int8", ref.New(), bitsOptions), item))
}

// TestInt8HeadLoadRefuses: a head in codes is what config.json says, no less and no more, and has its scales.
func TestInt8HeadLoadRefuses(t *testing.T) {
	const name = "qwen2-int8-head"
	bf16 := func(ts []kernels.HostTensor) []kernels.HostTensor {
		for i, tensor := range ts {
			if tensor.Name == architecture.LMHead+".weight" {
				ts[i] = kernels.HostTensor{Name: tensor.Name, Type: kernels.BF16, Rows: tensor.Rows, Cols: tensor.Cols, Data: make([]byte, 2*len(tensor.Data))}
			}
		}
		return ts
	}
	withConfig := func(old, new string) string {
		dir := writeCheckpoint(t, name, 1, nil)
		path := filepath.Join(dir, "config.json")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(text, []byte(old)) {
			t.Fatalf("config.json has no %s", old)
		}
		if err := os.WriteFile(path, bytes.ReplaceAll(text, []byte(old), []byte(new)), 0o600); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for want, dir := range map[string]string{
		`tensor "lm_head.weight" is bfloat16, which quantization_config of config.json contradicts`: writeCheckpoint(t, name, 1, bf16),
		`tensor "lm_head.weight" is int8, which quantization_config of config.json contradicts`:     withConfig(`"ignore": []`, `"ignore": ["lm_head"]`),
		`tensor "lm_head.weight_scale" has no place in the model`:                                   withConfig(`"tie_word_embeddings": false`, `"tie_word_embeddings": true`),
	} {
		if _, err := Load(dir, ref.New(), Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to hold %q", err, want)
		}
	}
}
