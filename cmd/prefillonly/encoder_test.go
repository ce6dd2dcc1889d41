package main

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/encoder"
	"github.com/prefillonly/prefillonly/engine/encoder/encodertest"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/weights/store"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

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
	dir := filepath.Join(t.TempDir(), "reranker")
	if err := encodertest.Reranker(dir); err != nil {
		t.Fatal(err)
	}
	p := serve(t, nil, "--model", dir)
	query := []int{7, 1, 30}
	var pairs [][2][]int
	var documents []string
	for i := range 500 {
		var words []int
		for j := range 1 + i%9 {
			words = append(words, (i*13+j*7)%encodertest.Words)
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
