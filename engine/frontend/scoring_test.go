package frontend

import (
	"net/http"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/checkpoint"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/frontend/registry"
	"github.com/prefillonly/prefillonly/engine/text"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// noSpecials is a tokenizer without special tokens.
type noSpecials struct{}

func (noSpecials) Around() (before, after []engine.TokenID) { return nil, nil }
func (noSpecials) Templated() bool                          { return false }
func (noSpecials) Pair() (text.Pair, error)                 { return text.Pair{}, nil }

// newEmbedder makes a Frontend of a model of vectors of 2 numbers, of m's kind.
func newEmbedder(t *testing.T, m *checkpoint.Model, answer func(*wire.Submit) []*wire.Result) *Frontend {
	t.Helper()
	f, _ := newUnwelcomed(t, Config{}, client.Config{}, answer)
	served := demo(byteTokenizer{})
	open := served.Open
	served.TextKey, served.Checkpoint = "embedder", m
	served.Open = func() (*text.Text, error) {
		text, err := open()
		text.Specials = noSpecials{}
		return text, err
	}
	if err := f.SetModels([]registry.Model{served}); err != nil {
		t.Fatal(err)
	}
	w := welcome(1)
	w.Served[1].Tokens.Hidden = 2
	f.pool.Deliver(w)
	return f
}

func vector(s *wire.Submit) []*wire.Result {
	return []*wire.Result{{Job: s.ID, Finish: engine.FinishLength, Output: &engine.TokenOutput{Vector: []float32{3, float32(len(tokens(s).IDs))}}}}
}

// TestScoring: an endpoint of scoring answers, is counted and listed, and refuses in its own words.
func TestScoring(t *testing.T) {
	f := newEmbedder(t, &checkpoint.Model{Kind: checkpoint.Embedder, Pool: engine.PoolLast, Normalize: true}, vector)
	w := do(f, http.MethodPost, "/v1/embeddings", `{"model":"alias","input":["abcd","abcd"],"request_id":"mine"}`)
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"embedding":[0.6,0.8]`) || !strings.Contains(w.Body.String(), `"id":"embd-mine"`) || w.Header().Get("X-Request-Id") != "mine" {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	var list api.Models
	decodeBody(t, do(f, http.MethodGet, "/v1/models", "").Body, &list)
	if got := strings.Join(list.Data[0].Capabilities, " "); got != "embeddings pooling score rerank" {
		t.Errorf("capabilities %q", got)
	}
	metrics := do(f, http.MethodGet, "/metrics", "").Body.String()
	for _, want := range []string{`vllm:prompt_tokens_total{engine="0",model_name="demo"} 8`, `vllm:request_success_total{engine="0",finished_reason="stop",model_name="demo"} 1`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no metric %s", want)
		}
	}
	if openJobs(f) != 0 {
		t.Error("jobs stay open")
	}
	for body, want := range map[string]string{
		`{"model":"nope","input":"a"}`: `"code":"model_not_found"`,
		`{"model":"demo"`:              `"code":"invalid_json"`,
		`{"input":7}`:                  `"param":"input"`,
	} {
		if w := do(f, http.MethodPost, "/v1/embeddings", body); w.Code < 400 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: status %d: %s", body, w.Code, w.Body)
		}
	}
}

// TestScoringRefuses: each API's own form of an error, also before a body is read.
func TestScoringRefuses(t *testing.T) {
	f := newEmbedder(t, &checkpoint.Model{Kind: checkpoint.Embedder, Pool: engine.PoolLast}, vector)
	for _, c := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/embed", `{}`, 400, `{"error":"inputs is missing; give a string, a list of strings, or token ids","error_type":"Empty"}`},
		{"/embed", `{"model":"nope","inputs":"a"}`, 404, `"error_type":"Validation"`},
		{"/predict", `{"inputs":"a"}`, 422, `"error_type":"Validation"`},
		{"/rerank", `{"texts":["a"]}`, 400, `"error_type":"Empty"`},
		{"/rerank", `{"documents":["a"]}`, 400, `"param":"query"`},
		{"/v2/rerank", `{"documents":["a"]}`, 400, `{"message":"query is missing; give a string"}`},
		{"/v2/models/x", `{}`, 404, `{"error":"`},
	} {
		w := do(f, http.MethodPost, c.path, c.body)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s: status %d: %s", c.path, c.body, w.Code, w.Body)
		}
	}
	if w := do(f, http.MethodPost, "/v2/rerank", `a=b`, "Content-Type", "text/plain"); w.Code != http.StatusUnsupportedMediaType || !strings.HasPrefix(w.Body.String(), `{"message":`) {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

// TestTEI: what clients of text-embeddings-inference ask beside vectors.
func TestTEI(t *testing.T) {
	f := newEmbedder(t, &checkpoint.Model{Kind: checkpoint.Embedder, Pool: engine.PoolMean, MaxTokens: 30, Prompts: map[string]string{"q": "q:"}}, vector)
	for _, c := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/tokenize", `{"inputs":["ab","é"],"prompt_name":"q"}`, 200, `[[{"id":113,"text":"q","special":false,"start":0,"stop":1},{"id":58,"text":":","special":false,"start":1,"stop":2},{"id":97,"text":"a","special":false,"start":2,"stop":3}`},
		{"/tokenize", `{"inputs":"a","prompt_name":"x"}`, 422, `{"error":"the model`},
		{"/tokenize", `{"inputs":[]}`, 400, `"error_type":"Empty"`},
		{"/tokenize", `{"prompt":"ab"}`, 200, `"tokens":[256,97,98]`},
		{"/tokenize", `{}`, 400, `"param":"prompt"`},
		{"/decode", `{"ids":[97,98]}`, 200, `["ab"]`},
		{"/decode", `{"ids":[[97],[98]],"skip_special_tokens":false}`, 200, `["a","b"]`},
		{"/decode", `{"ids":[999999]}`, 422, `{"error":"ids has token id 999999; the vocabulary has`},
		{"/decode", `{"model":"nope","ids":[1]}`, 404, `"error_type":"Validation"`},
		{"/v2/embed", `{}`, 400, `{"message":"texts is missing; give a list of strings"}`},
	} {
		w := do(f, http.MethodPost, c.path, c.body)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s: status %d: %s", c.path, c.body, w.Code, w.Body)
		}
	}
	w := do(f, http.MethodGet, "/info", "")
	for _, want := range []string{`"model_id":"demo"`, `"model_type":{"embedding":{"pooling":"mean"}}`, `"max_input_length":30`, `"max_client_batch_size":4096`, `"auto_truncate":false`, `"model_sha":null`} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("/info has no %s: %s", want, w.Body)
		}
	}
	f = newEmbedder(t, &checkpoint.Model{Kind: checkpoint.Classifier, Pool: engine.PoolFirst, Labels: []string{"x"}}, vector)
	if w := do(f, http.MethodGet, "/info", ""); !strings.Contains(w.Body.String(), `"model_type":{"reranker":{"id2label":{"0":"x"},"label2id":{"x":0}}}`) {
		t.Errorf("/info: %s", w.Body)
	}
	if w := do(f, http.MethodGet, "/info?model=nope", ""); w.Code != http.StatusNotFound || !strings.HasPrefix(w.Body.String(), `{"error":"`) {
		t.Errorf("/info: status %d: %s", w.Code, w.Body)
	}
	f, _ = newFrontend(t, Config{Keys: ring(t, "one")}, nil)
	for _, path := range []string{"/info", "/decode", "/v2/embed", "/v1/embed", "/tokenize"} {
		if w := do(f, http.MethodPost, path, `{}`); w.Code != http.StatusUnauthorized {
			t.Errorf("%s without a key: status %d", path, w.Code)
		}
	}
}

// TestNoTokens: a model without an LM head is not asked for tokens, and the refusal says what to ask for.
func TestNoTokens(t *testing.T) {
	f := newEmbedder(t, &checkpoint.Model{Kind: checkpoint.Embedder, Pool: engine.PoolMean}, vector)
	w := welcome(2)
	w.Served[1].Tokens.VectorsOnly = true
	f.pool.Deliver(w)
	for path, body := range map[string]string{"/v1/completions": `{"prompt":"a"}`, "/v1/chat/completions": `{"messages":[{"role":"user","content":"a"}]}`} {
		w := do(f, http.MethodPost, path, body)
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "is an embedder: it does not answer completions, but embeddings, pooling, score and rerank") {
			t.Errorf("%s: status %d: %s", path, w.Code, w.Body)
		}
	}
}

// TestScoringFails: an error of the engine ends the request, and the rest of its jobs.
func TestScoringFails(t *testing.T) {
	f := newEmbedder(t, &checkpoint.Model{Kind: checkpoint.Embedder, Pool: engine.PoolLast}, func(s *wire.Submit) []*wire.Result {
		return []*wire.Result{{Job: s.ID, Err: engine.Errorf(engine.CodeOverloaded, "m")}}
	})
	w := do(f, http.MethodPost, "/v1/embeddings", `{"input":["a","b"]}`)
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" || openJobs(f) != 0 {
		t.Errorf("status %d, %d jobs: %s", w.Code, openJobs(f), w.Body)
	}
	f = newEmbedder(t, nil, vector)
	if w := do(f, http.MethodPost, "/v1/embeddings", `{"input":"a"}`); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "not known what the model") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}
