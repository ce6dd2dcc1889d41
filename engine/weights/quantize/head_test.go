package quantize

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
)

const (
	embed    = "model.embed_tokens.weight"
	secondOf = "model-00002-of-00002.safetensors"
)

// withHead writes checkpoint's model with another configuration, and with the LM head that edit makes of the one there and of the
// embedding; nil is none.
func withHead(t *testing.T, config string, edit func(head, embedding kernels.HostTensor) *kernels.HostTensor) string {
	t.Helper()
	dir := checkpoint(t)
	c := open(t, dir)
	var tensors []kernels.HostTensor
	index := map[string]bool{}
	for _, e := range c.Entries() {
		if filepath.Base(c.Files()[e.File].Path) != secondOf {
			continue
		}
		found := tensor(t, c, e.Name, e.Shape)
		if e.Name == headWeight {
			head := edit(found, tensor(t, c, embed, []int{40, 24}))
			if head == nil {
				continue
			}
			found = *head
			found.Name = headWeight
		}
		tensors = append(tensors, found)
		index[e.Name] = true
	}
	err := weights.WriteFile(filepath.Join(dir, secondOf+".new"), tensors)
	if err == nil {
		err = os.Rename(filepath.Join(dir, secondOf+".new"), filepath.Join(dir, secondOf))
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, configFile), []byte(config), 0o600)
	}
	if err == nil && !index[headWeight] {
		err = withoutInIndex(dir, headWeight)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// withoutInIndex takes a tensor out of a checkpoint's index.
func withoutInIndex(dir, name string) error {
	path := filepath.Join(dir, indexFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(strings.Replace(string(text), fmt.Sprintf("%q:%q,", name, secondOf), "", 1)), 0o600)
}

func same(head, _ kernels.HostTensor) *kernels.HostTensor             { return &head }
func ofEmbedding(_, embedding kernels.HostTensor) *kernels.HostTensor { return &embedding }
func none(_, _ kernels.HostTensor) *kernels.HostTensor                { return nil }

const (
	untied = `{"architectures":["LlamaForCausalLM"],"tie_word_embeddings":false}`
	tied   = `{"architectures":["LlamaForCausalLM"],"tie_word_embeddings":true}`
)

// TestLMHead: codes of the head are beside the embedding, which is what it was, whether that was the head or not.
func TestLMHead(t *testing.T) {
	for name, c := range map[string]struct {
		config string
		edit   func(head, embedding kernels.HostTensor) *kernels.HostTensor
		source string
		file   string // that the codes are in
	}{
		"untied":                       {untied, same, headWeight, secondOf},
		"tied":                         {tied, none, embed, "model-00001-of-00002.safetensors"},
		"tied, and there all the same": {tied, ofEmbedding, headWeight, secondOf},
	} {
		for scheme, want := range map[Scheme]weights.Scheme{W8A8: {Type: kernels.I8}, W8A16: {Type: kernels.I8, WeightOnly: true}} {
			t.Run(name+", "+string(scheme), func(t *testing.T) {
				from, to := withHead(t, c.config, c.edit), filepath.Join(t.TempDir(), "to")
				var done, total int64
				result, err := Run(t.Context(), from, to, Options{Scheme: scheme, LMHead: true, Progress: func(d, of int64) { done, total = d, of }})
				if err != nil {
					t.Fatal(err)
				}
				before, after := open(t, from), open(t, to)
				checkCodes(t, tensor(t, before, c.source, []int{40, 24}), tensor(t, after, headWeight, []int{40, 24}))
				if was, is := tensor(t, before, embed, []int{40, 24}), tensor(t, after, embed, []int{40, 24}); was.Type != is.Type || string(was.Data) != string(is.Data) {
					t.Error("the embedding has changed")
				}
				read := bytesOf(before)
				if c.source == embed {
					read += 2 * 40 * 24
				}
				if result != (Result{Matrices: 5, Before: bytesOf(before), After: bytesOf(after)}) || done != total || total != read {
					t.Errorf("result %+v, progress %d of %d; there were %d bytes, %d are read, and there are %d", result, done, total, bytesOf(before), read, bytesOf(after))
				}
				for _, e := range after.Entries() {
					if file := filepath.Base(after.Files()[e.File].Path); strings.HasPrefix(e.Name, headWeight) && file != c.file {
						t.Errorf("%s is in %s", e.Name, file)
					}
				}
				config, err := weights.ReadConfig(to)
				if err != nil {
					t.Fatal(err)
				}
				if err := config.QuantizationConfig.Check(); err != nil || config.TieWordEmbeddings || config.QuantizationConfig.Linear(lmHead) != want || config.QuantizationConfig.Linear("score").Quantized() {
					t.Errorf("tied: %t, the head's scheme %+v (%v)", config.TieWordEmbeddings, config.QuantizationConfig.Linear(lmHead), err)
				}
			})
		}
	}
}

// bytesOf is what all tensors take.
func bytesOf(c *weights.Checkpoint) (sum int64) {
	for _, e := range c.Entries() {
		sum += e.Bytes
	}
	return sum
}

func TestLMHeadRefuses(t *testing.T) {
	const architecture = `{"architectures":["Qwen2%s"],"tie_word_embeddings":true}`
	for want, c := range map[string]struct {
		config string
		edit   func(head, embedding kernels.HostTensor) *kernels.HostTensor
		noHead bool
	}{
		"architectures is [Qwen2Model]":                                                   {fmt.Sprintf(architecture, "Model"), none, true},
		"architectures is [Qwen2ForSequenceClassification]":                               {fmt.Sprintf(architecture, "ForSequenceClassification"), none, true},
		"architectures is [Qwen2ForRewardModel]":                                          {fmt.Sprintf(architecture, "ForRewardModel"), none, true},
		"architectures is []":                                                             {`{}`, same, true},
		`no tensor "lm_head.weight" is a matrix of numbers`:                               {untied, none, true},
		"tie_word_embeddings in config.json makes them one":                               {tied, same, false},
		"config.json: tie_word_embeddings: it is a JSON string; it must be true or false": {`{"architectures":["LlamaForCausalLM"],"tie_word_embeddings":"no"}`, same, false},
		"config.json: architectures: it is a JSON number; it must be a list":              {`{"architectures":7}`, same, false},
		`tie_word_embeddings is true, and no tensor of ["model.embe`:                      {tied, func(head, _ kernels.HostTensor) *kernels.HostTensor { return nil }, true},
	} {
		from, beside := withHead(t, c.config, c.edit), t.TempDir()
		if strings.Contains(want, "no tensor of") {
			if err := single(from, kernels.HostTensor{Name: up, Type: kernels.BF16, Rows: 2, Cols: 1, Data: make([]byte, 4)}); err != nil {
				t.Fatal(err)
			}
		}
		_, err := Run(t.Context(), from, filepath.Join(beside, "to"), Options{Scheme: W8A8, LMHead: true})
		if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, ErrNoLMHead) != c.noHead {
			t.Errorf("error %v, want it to hold %q; that there is none: %t", err, want, c.noHead)
		}
		if left, _ := os.ReadDir(beside); len(left) != 0 {
			t.Errorf("%s: left is %v", want, left)
		}
	}
}

// FuzzNewConfig: whatever config.json is, a new one is one of the scheme, in which an LM head that is asked for is a matrix of its own.
func FuzzNewConfig(f *testing.F) {
	for _, text := range []string{untied, tied, `{}`, `null`, `{"architectures":null,"tie_word_embeddings":null}`, `{"architectures":["AForCausalLM"],"quantization_config":null}`} {
		f.Add([]byte(text), true, true)
		f.Add([]byte(text), false, false)
	}
	f.Fuzz(func(t *testing.T, text []byte, head, alone bool) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, configFile), text, 0o600); err != nil {
			t.Fatal(err)
		}
		o := Options{Scheme: W8A8, LMHead: head}
		if alone {
			o.Scheme = W8A16
		}
		made, _, err := o.newConfig(dir)
		if err != nil {
			return
		}
		config, err := weights.ParseConfig(made)
		if err != nil {
			if _, before := weights.ParseConfig(text); before == nil {
				t.Fatal(err)
			}
			return
		}
		if err := config.QuantizationConfig.Check(); err != nil {
			t.Fatal(err)
		}
		if scheme := config.QuantizationConfig.Linear(lmHead); scheme.Quantized() != head || scheme.Quantized() && scheme.WeightOnly != alone {
			t.Fatalf("the LM head's scheme is %+v", scheme)
		}
		keys := map[string]any{} // by their exact names, which ParseConfig does not ask for
		if err := json.Unmarshal(made, &keys); err != nil {
			t.Fatal(err)
		}
		if head && keys[tieKey] == true {
			t.Fatalf("the head is still the embedding: %s", made)
		}
	})
}
