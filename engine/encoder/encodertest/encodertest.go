// Package encodertest writes small encoders with random weights, for tests that serve one.
package encodertest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
)

const (
	Words = 50 // of the vocabulary, w0 to w49, behind five others
	width = 64
)

// Reranker writes a random BERT with a head of one label, whose tokens are words, to a new directory.
func Reranker(dir string) error {
	const h, inter = width, 96
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	type shaped struct {
		name  string
		shape []int
	}
	linear := func(name string, rows, cols int) []shaped {
		return []shaped{{name + ".weight", []int{rows, cols}}, {name + ".bias", []int{rows}}}
	}
	norm := func(name string) []shaped { return []shaped{{name + ".weight", []int{h}}, {name + ".bias", []int{h}}} }
	list := []shaped{
		{"bert.embeddings.word_embeddings.weight", []int{5 + Words, h}},
		{"bert.embeddings.position_embeddings.weight", []int{64, h}},
		{"bert.embeddings.token_type_embeddings.weight", []int{2, h}},
	}
	list = append(list, norm("bert.embeddings.LayerNorm")...)
	for i := range 2 {
		layer := fmt.Sprintf("bert.encoder.layer.%d.", i)
		for _, name := range []string{"attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"} {
			list = append(list, linear(layer+name, h, h)...)
		}
		list = append(list, linear(layer+"intermediate.dense", inter, h)...)
		list = append(list, linear(layer+"output.dense", h, inter)...)
		list = append(append(list, norm(layer+"attention.output.LayerNorm")...), norm(layer+"output.LayerNorm")...)
	}
	list = append(append(list, linear("bert.pooler.dense", h, h)...), linear("classifier", 1, h)...)
	header, data := map[string]any{}, []byte{}
	for _, s := range list {
		tensor, err := weights.Random{Seed: 3, Type: kernels.BF16}.Tensor(s.name, s.shape...)
		if err != nil {
			return err
		}
		header[s.name] = map[string]any{"dtype": "BF16", "shape": s.shape, "data_offsets": []int{len(data), len(data) + len(tensor.Data)}}
		data = append(data, tensor.Data...)
	}
	raw, err := json.Marshal(header)
	if err != nil {
		return err
	}
	raw = append(binary.LittleEndian.AppendUint64(nil, uint64(len(raw))), raw...)
	vocab := map[string]int{"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4}
	for i := range Words {
		vocab[fmt.Sprintf("w%d", i)] = 5 + i
	}
	words, err := json.Marshal(vocab)
	if err != nil {
		return err
	}
	for name, content := range map[string]string{
		"model.safetensors": string(raw) + string(data),
		"config.json": fmt.Sprintf(`{"architectures":["BertForSequenceClassification"],"vocab_size":%d,"hidden_size":%d,"intermediate_size":%d,
			"num_hidden_layers":2,"num_attention_heads":2,"max_position_embeddings":64,"type_vocab_size":2,"id2label":{"0":"LABEL_0"}}`, 5+Words, h, inter),
		"tokenizer.json": fmt.Sprintf(`{"version":"1.0","added_tokens":[{"id":3,"content":"[SEP]","special":true,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false}],
			"normalizer":null,"pre_tokenizer":{"type":"WhitespaceSplit"},"decoder":null,
			"post_processor":{"type":"BertProcessing","sep":["[SEP]",3],"cls":["[CLS]",2]},"model":{"type":"WordLevel","vocab":%s,"unk_token":"[UNK]"}}`, words),
		"tokenizer_config.json": `{"tokenizer_class":"BertTokenizer"}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}
