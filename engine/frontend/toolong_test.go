package frontend

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// overlong is a body with a text of LONG in it, which does not fit, and what asks for it to be truncated, if that may be asked.
type overlong struct {
	path, model, body string
	truncate          string // is put in front of the body's members
	kept              int    // tokens of the longest job then; 0: as many as the context holds
	status            int    // of the refusal; 0: 400
	param             string // that the refusal names; empty: any
}

// overlongBodies are of every path that reads a text which has to fit into a model's context.
var overlongBodies = []overlong{
	{path: "/v1/completions", model: "lm", body: `"prompt":"LONG","max_tokens":1`, truncate: `"truncate_prompt_tokens":-1`, kept: contextTokens - 1},
	{path: "/v1/completions", model: "lm", body: `"prompt":["a","LONG"],"max_tokens":1`, truncate: `"truncate_prompt_tokens":9`, kept: 9},
	{path: "/v1/completions", model: "lm", body: `"prompt":[IDS],"max_tokens":1`, truncate: `"truncate_prompt_tokens":9`, kept: 9},
	{path: "/v1/completions", model: "lm", body: `"prompt":"LONG","max_tokens":0,"echo":true,"logprobs":1`, truncate: `"truncate_prompt_tokens":9`, kept: 9},
	{path: "/v1/completions", model: "lm", body: `"prompt":"LONG","max_tokens":1,"stream":true`, truncate: `"truncate_prompt_tokens":9`, kept: 9},
	{path: "/v1/chat/completions", model: "lm", body: `"messages":[{"role":"user","content":"LONG"}],"max_tokens":1`, truncate: `"truncate_prompt_tokens":-1`, kept: contextTokens - 1},
	{path: "/v1/completions/render", model: "lm", body: `"prompt":"LONG","max_tokens":1`},
	{path: "/v1/chat/completions/render", model: "lm", body: `"messages":[{"role":"user","content":"LONG"}],"max_tokens":1`},
	{path: "/v1/decisions", model: "lm", body: `"input":"LONG","questions":[{"type":"predicate","instructions":"a"}]`},
	{path: "/v1/systemone", model: "lm", body: `"state":"LONG","questions":{"a":{"type":"noul","instructions":"a"}}`},
	{path: "/v1/embeddings", model: "embedder", body: `"input":["a","LONG"]`, truncate: `"truncate_prompt_tokens":-1`},
	{path: "/v1/embeddings", model: "embedder", body: `"input":[IDS]`, truncate: `"truncate_prompt_tokens":9`, kept: 9},
	{path: "/v1/embeddings", model: "embedder", body: `"messages":[{"role":"user","content":"LONG"}]`, truncate: `"truncate_prompt_tokens":9`, kept: 9},
	{path: "/embeddings", model: "embedder", body: `"input":"LONG"`, truncate: `"truncate_prompt_tokens":-1`},
	{path: "/v1/embed", model: "embedder", body: `"texts":["LONG"],"input_type":"search_query"`, truncate: `"truncate":"END"`},
	{path: "/v2/embed", model: "embedder", body: `"texts":["LONG"],"input_type":"search_query"`, truncate: `"truncate":"START"`},
	{path: "/v1/score", model: "ranker", body: `"text_1":"a","text_2":["LONG"]`, truncate: `"truncate_prompt_tokens":-1`},
	{path: "/score", model: "embedder", body: `"queries":"LONG","documents":["a"]`, truncate: `"truncate_prompt_tokens":-1`, param: `"param":"queries"`},
	{path: "/v1/score", model: "lm", body: `"query":"a","items":["LONG"],"label_token_ids":[97,98]`},
	{path: "/generative_scoring", model: "lm", body: `"query":"LONG","items":["a"],"label_token_ids":[97,98]`, truncate: `"truncate_prompt_tokens":9`, kept: 9},
	{path: "/v1/rerank", model: "ranker", body: `"query":"a","documents":["a","LONG"]`, truncate: `"truncate_prompt_tokens":-1`},
	{path: "/v1/reranking", model: "ranker", body: `"query":"a","documents":["LONG"]`, truncate: `"max_tokens_per_doc":9`, kept: 10},
	{path: "/reranking", model: "ranker", body: `"query":"LONG","documents":["a"]`, truncate: `"truncate_prompt_tokens":9`, kept: 9},
	{path: "/v2/rerank", model: "ranker", body: `"query":"a","documents":["LONG"]`, truncate: `"max_tokens_per_doc":9`, kept: 10},
	{path: "/rerank", model: "ranker", body: `"query":"a","documents":["LONG"]`, truncate: `"truncate_prompt_tokens":-1`},
	{path: "/rerank", model: "ranker", body: `"query":"a","texts":["LONG"]`, truncate: `"truncate":true`, status: 422},
	{path: "/v1/ranking", model: "ranker", body: `"query":{"text":"a"},"passages":[{"text":"LONG"}]`, truncate: `"truncate":"END"`},
	{path: "/v1/classify", model: "classifier", body: `"input":"LONG"`, truncate: `"truncate_prompt_tokens":-1`},
	{path: "/classify", model: "classifier", body: `"input":["LONG"]`, truncate: `"truncate_prompt_tokens":9`, kept: 9},
	{path: "/pooling", model: "embedder", body: `"input":"LONG"`, truncate: `"truncate_prompt_tokens":-1`},
	{path: "/pooling", model: "embedder", body: `"input":"LONG","task":"token_embed"`, truncate: `"truncate_prompt_tokens":9`, kept: 9},
	{path: "/embed", model: "embedder", body: `"inputs":"LONG"`, truncate: `"truncate":true`, status: 422},
	{path: "/embed_all", model: "embedder", body: `"inputs":["LONG"]`, truncate: `"truncate":true`, status: 422},
	{path: "/predict", model: "classifier", body: `"inputs":"LONG"`, truncate: `"truncate":true`, status: 422},
	{path: "/similarity", model: "embedder", body: `"inputs":{"source_sentence":"a","sentences":["LONG"]}`, truncate: `"parameters":{"truncate":true}`, status: 422},
}

// unbounded are the paths with a body that nothing has to fit into a context of, and why.
var unbounded = map[string]string{
	"/v1/audio/transcriptions": "sound, which has a bound in seconds",
	"/tokenize":                "answers all tokens, and runs nothing",
	"/detokenize":              "answers the text of all tokens, and runs nothing",
	"/decode":                  "answers the text of all tokens, and runs nothing",
	"/v1/models/*":             "has no text",
	"/v2/models/*":             "takes tensors",
	"/v2/repository/index":     "has no text",
	"/v2/repository/models/*":  "has no text",
	"/ping":                    "has no text",
	"/v1/ocr":                  "takes a picture",
}

// fill writes a text of n tokens for LONG, and for IDS its tokens.
func fill(body string, n int) string {
	return strings.NewReplacer("LONG", strings.Repeat("y", n), "IDS", strings.TrimSuffix(strings.Repeat("121,", n), ",")).Replace(body)
}

var figures = regexp.MustCompile(`[0-9]+`)

// TestOverlongInputIsRefused holds that, on every path, an input which does not fit is refused with its size and the limit, before
// anything is run; and that it is cut to the tokens that were asked for where truncation was, and nowhere else.
func TestOverlongInputIsRefused(t *testing.T) {
	for _, c := range overlongBodies {
		// A little too long is known by its tokens, far too long by its bytes; the token of 1 is what is read beside it.
		for _, n := range []int{contextTokens + 1, 4 * contextTokens * 2} {
			body := fmt.Sprintf(`{"model":%q,%s}`, c.model, fill(c.body, n))
			f, s := newEvery(t, -1)
			w := do(f, http.MethodPost, c.path, body)
			said := figures.FindAllString(w.Body.String(), -1)
			if text := w.Body.String(); strings.Contains(text, `"code":`) && !strings.Contains(text, `"code":"context_length_exceeded"`) || !strings.Contains(text, c.param) {
				t.Errorf("%s %.120s of %d tokens: %s", c.path, c.body, n, text)
			}
			if submits, _ := s.Seen(); w.Code != cmp.Or(c.status, http.StatusBadRequest) || !tells(said, contextTokens-1, contextTokens) || !tells(said, n, n+100) || len(submits) != 0 {
				t.Errorf("%s %.120s of %d tokens: status %d, %d jobs, %.400s", c.path, c.body, n, w.Code, len(submits), w.Body)
			}
			if c.truncate == "" {
				continue
			}
			w = do(f, http.MethodPost, c.path, strings.Replace(body, "{", "{"+c.truncate+",", 1))
			submits, _ := s.Seen()
			longest := 0
			for _, m := range submits {
				longest = max(longest, len(tokens(m).IDs))
			}
			if w.Code != http.StatusOK || longest != cmp.Or(c.kept, contextTokens) {
				t.Errorf("%s %.120s of %d tokens with %s: status %d, a job of %d tokens, %.400s", c.path, c.body, n, c.truncate, w.Code, longest, w.Body)
			}
		}
	}
}

// tells is whether one of these figures is from least to most.
func tells(said []string, least, most int) bool {
	for _, text := range said {
		var n int
		if _, err := fmt.Sscan(text, &n); err == nil && least <= n && n <= most {
			return true
		}
	}
	return false
}

// TestOverlongInputIsOfEveryPath holds that no path with a body is left out of the table.
func TestOverlongInputIsOfEveryPath(t *testing.T) {
	f, _ := newEvery(t, -1)
	listed := map[string]bool{}
	for _, c := range overlongBodies {
		listed[c.path] = true
	}
	for _, r := range f.routeTable() {
		if r.Method == http.MethodPost && listed[r.Pattern] == (unbounded[r.Pattern] != "") {
			t.Errorf("%s belongs into one of overlongBodies and unbounded", r.Pattern)
		}
	}
}

// TestLongTextsThatAreNotRun holds that what only reads a text longer than a context answers all of its tokens or, where
// truncation is asked for, those that are left.
func TestLongTextsThatAreNotRun(t *testing.T) {
	const n = 3 * contextTokens
	for _, c := range []struct {
		path, body, token string
		want              int
	}{
		{"/v1/completions/render", `"prompt":[IDS],"max_tokens":1,"truncate_prompt_tokens":9`, "121", 9},
		{"/v1/chat/completions/render", `"messages":[{"role":"user","content":"LONG"}],"max_tokens":1,"truncate_prompt_tokens":20`, "121", 9},
		{"/tokenize", `"prompt":"LONG"`, "121", n},
		{"/tokenize", `"inputs":"LONG"`, `"id":121`, n},
		{"/tokenize", `"messages":[{"role":"user","content":"LONG"}]`, "121", n},
		{"/detokenize", `"tokens":[IDS]`, "y", n},
		{"/decode", `"ids":[IDS]`, "y", n},
	} {
		f, _ := newEvery(t, -1)
		w := do(f, http.MethodPost, c.path, fmt.Sprintf(`{"model":"lm",%s}`, fill(c.body, n)), "X-Request-Id", "r")
		if got := strings.Count(w.Body.String(), c.token); w.Code != http.StatusOK || got != c.want {
			t.Errorf("%s %s: status %d, %d tokens, want %d: %.300s", c.path, c.body, w.Code, got, c.want, w.Body)
		}
	}
}
