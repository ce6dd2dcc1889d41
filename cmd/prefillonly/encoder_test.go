package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/encoder"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/weights/store"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

const (
	encoderWords = 50 // of its vocabulary, w0 to w49, behind five others
	encoderWidth = 64
)

// encoderDir writes a random BERT with a head of one label, whose tokens are words.
func encoderDir(t *testing.T) string {
	t.Helper()
	const h, inter = encoderWidth, 96
	dir := filepath.Join(t.TempDir(), "reranker")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
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
		{"bert.embeddings.word_embeddings.weight", []int{5 + encoderWords, h}},
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
			t.Fatal(err)
		}
		header[s.name] = map[string]any{"dtype": "BF16", "shape": s.shape, "data_offsets": []int{len(data), len(data) + len(tensor.Data)}}
		data = append(data, tensor.Data...)
	}
	raw, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	raw = append(binary.LittleEndian.AppendUint64(nil, uint64(len(raw))), raw...)
	vocab := map[string]int{"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4}
	for i := range encoderWords {
		vocab[fmt.Sprintf("w%d", i)] = 5 + i
	}
	words, err := json.Marshal(vocab)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"model.safetensors": string(raw) + string(data),
		"config.json": fmt.Sprintf(`{"architectures":["BertForSequenceClassification"],"vocab_size":%d,"hidden_size":%d,"intermediate_size":%d,
			"num_hidden_layers":2,"num_attention_heads":2,"max_position_embeddings":64,"type_vocab_size":2,"id2label":{"0":"LABEL_0"}}`, 5+encoderWords, h, inter),
		"tokenizer.json": fmt.Sprintf(`{"version":"1.0","added_tokens":[{"id":3,"content":"[SEP]","special":true,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false}],
			"normalizer":null,"pre_tokenizer":{"type":"WhitespaceSplit"},"decoder":null,
			"post_processor":{"type":"BertProcessing","sep":["[SEP]",3],"cls":["[CLS]",2]},"model":{"type":"WordLevel","vocab":%s,"unk_token":"[UNK]"}}`, words),
		"tokenizer_config.json": `{"tokenizer_class":"BertTokenizer"}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// relevance is what the reference backend says of pairs of words, the second of which begins behind the first separator.
func relevance(t *testing.T, dir string, pairs [][2][]int) []float64 {
	t.Helper()
	config, err := weights.ReadConfig(dir)
	if err != nil {
		t.Fatal(err)
	}
	files, err := weights.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	b := ref.New()
	m, err := encoder.Open(config, files, store.New(b), encoder.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for i := range m.Chunks() {
		if err := m.LoadChunk(i); err != nil {
			t.Fatal(err)
		}
	}
	work, err := encoder.NewWorkspace(b, m.Size().Views)
	if err == nil {
		err = m.Use(work)
	}
	if err != nil {
		t.Fatal(err)
	}
	run := &wire.Run{}
	for _, p := range pairs {
		tokens, second := []engine.TokenID{2}, 0
		for _, text := range p {
			second = len(tokens)
			for _, word := range text {
				tokens = append(tokens, engine.TokenID(5+word))
			}
			tokens = append(tokens, 3)
		}
		run.Items = append(run.Items, wire.RunItem{Work: &wire.TokenItem{Tokens: tokens, Ask: engine.Ask{Pool: engine.PoolFirst, Head: true, Second: second}}})
	}
	pass, err := m.Begin(run)
	if err != nil {
		t.Fatal(err)
	}
	for done := false; !done; {
		if done, err = pass.Step(); err != nil {
			t.Fatal(err)
		}
	}
	var scores []float64
	for _, r := range pass.Results() {
		logit := float64(r.Output.(*engine.TokenOutput).Vector[0])
		scores = append(scores, 1/(1+math.Exp(-logit)))
	}
	return scores
}

func spelled(words []int) string {
	var list []string
	for _, w := range words {
		list = append(list, fmt.Sprintf("w%d", w))
	}
	return strings.Join(list, " ")
}

// TestServeEncoder serves a cross-encoder: documents are ranked as the reference backend ranks them, to the same bits each
// time, and many short ones run in a few passes.
func TestServeEncoder(t *testing.T) {
	dir := encoderDir(t)
	p := serve(t, nil, "--model", dir)
	query := []int{7, 1, 30}
	var pairs [][2][]int
	var documents []string
	for i := range 500 {
		var words []int
		for j := range 1 + i%9 {
			words = append(words, (i*13+j*7)%encoderWords)
		}
		pairs, documents = append(pairs, [2][]int{query, words}), append(documents, spelled(words))
	}
	body, err := json.Marshal(map[string]any{"model": "reranker", "query": spelled(query), "documents": documents})
	if err != nil {
		t.Fatal(err)
	}
	type ranked struct {
		Results []struct {
			Index int
			Score float64 `json:"relevance_score"`
		}
	}
	var answers [2]ranked
	for i := range answers {
		status, answer := p.post("/rerank", "key", string(body))
		if status != 200 || json.Unmarshal([]byte(answer), &answers[i]) != nil || len(answers[i].Results) != len(documents) {
			t.Fatalf("%d %.500s", status, answer)
		}
	}
	want := relevance(t, dir, pairs)
	for i, r := range answers[0].Results {
		if r != answers[1].Results[i] {
			t.Errorf("result %d is %v, and then %v", i, r, answers[1].Results[i])
		}
		if off := math.Abs(r.Score - want[r.Index]); !(off < 0.01) {
			t.Errorf("document %d: %v, want %v", r.Index, r.Score, want[r.Index])
		}
	}
	response, err := http.Get(p.base + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	passes := regexp.MustCompile(`prefillonly:passes_total\{[^}]*\} (\d+)`).FindStringSubmatch(readAll(t, response))
	if len(passes) == 0 {
		t.Fatal("/metrics says nothing of passes")
	}
	if n, err := strconv.Atoi(passes[1]); err != nil || n > len(documents)/4 {
		t.Errorf("%d prompts ran in %s passes: %v", 2*len(documents), passes[1], err)
	}
	alone, err := json.Marshal(map[string]any{"model": "reranker", "query": spelled(query), "documents": documents[7:8]})
	if err != nil {
		t.Fatal(err)
	}
	var one ranked
	if status, answer := p.post("/rerank", "key", string(alone)); status != 200 || json.Unmarshal([]byte(answer), &one) != nil || len(one.Results) != 1 {
		t.Fatalf("%d %.500s", status, answer)
	}
	for _, r := range answers[0].Results {
		if r.Index == 7 && r.Score != one.Results[0].Score {
			t.Errorf("document 7 is %v alone and %v beside others", one.Results[0].Score, r.Score)
		}
	}
	if status, answer := p.post("/v1/completions", "key", `{"model":"reranker","prompt":"w1","max_tokens":1}`); status != 400 {
		t.Errorf("a completion by an encoder: %d %s", status, answer)
	}
}
