package field

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"
)

// dot is the product of two vectors.
func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// vector is the embedding of a text.
func vector(t *testing.T, text string) []float64 {
	t.Helper()
	return ask(t, "/v1/embeddings", of(embedder, `"input":"`+text+`"`)).list("data.0.embedding")
}

// same is a check that a vector of the answer is that of a text.
func same(path, text string) func(*testing.T, *answer) {
	return func(t *testing.T, a *answer) {
		if got, want := a.list(path), vector(t, text); len(got) != len(want) || !near(dot(got, want), 1) {
			t.Errorf("%s is not the vector of %q", path, text)
		}
	}
}

func TestVectorsOfTexts(t *testing.T) {
	const path = "/v1/embeddings"
	refused := func(saw, thread, fields, param string, words ...string) row {
		return row{saw: saw, thread: thread, path: path, body: of(embedder, fields), status: 400, want: map[string]string{"error.param": `"` + param + `"`}, check: says(words...)}
	}
	run(t, []row{
		refused("no inputs were a server error", several, `"input":[]`, "input"),
		refused("null for an input was a server error", several, `"input":null`, "input"),
		refused("a text among token ids was a server error", several, `"input":[1,"a"]`, "input"),
		refused("a number for an input was a server error", several, `"input":5`, "input"),
		refused("a token id of an input above the vocabulary was an index out of bounds", "vllm-project/vllm#9634", `"input":[[1,2986]]`, "input", "2986"),
		refused("a negative token id of an input passed the check", "vllm-project/vllm#51795", `"input":[-1]`, "input", "-1"),
		refused("dimensions 0 were a vector of no numbers", several, `"input":"a","dimensions":0`, "dimensions"),
		refused("more dimensions than the model has came back as all it has", several, `"input":"a","dimensions":257`, "dimensions", "256"),
		refused("an unknown encoding was taken for floats", several, `"input":"a","encoding_format":"hex"`, "encoding_format"),
		{
			saw: "the documentation's example, a list of one number, gave 500", thread: "vllm-project/vllm#5906", path: path,
			body: of(embedder, `"input":[0],"encoding_format":"float","user":"string","additional_data":"string"`), status: 200,
			want: map[string]string{"data.#": `1`, "data.0.embedding.#": `256`, "usage.prompt_tokens": `1`},
		},
		{
			saw: "dimensions were refused", thread: "vllm-project/vllm#15465", path: path, body: of(embedder, `"input":"a","dimensions":8`), status: 200,
			want: map[string]string{"data.0.embedding.#": `8`},
			check: func(t *testing.T, a *answer) {
				cut := vector(t, "a")[:8]
				got := a.list("data.0.embedding")
				if !near(dot(got, got), 1) || !near(dot(got, cut), math.Sqrt(dot(cut, cut))) {
					t.Error("it is not the first eight numbers, made a vector of length 1 again")
				}
			},
		},
		{
			saw: "base64 vectors differed from those in floats", thread: several, path: path, body: of(embedder, `"input":["a","b"],"encoding_format":"base64"`), status: 200,
			check: func(t *testing.T, a *answer) {
				raw, err := base64.StdEncoding.DecodeString(a.word("data.1.embedding"))
				if err != nil || len(raw) != 4*256 {
					t.Fatalf("%d bytes, %v", len(raw), err)
				}
				for i, want := range vector(t, "b") {
					if got := math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])); got != float32(want) {
						t.Fatalf("number %d is %v, want %v", i, got, want)
					}
				}
			},
		},
		{
			saw: "many inputs in one request gave 500", thread: "ollama/ollama#6435", path: path,
			body: of(embedder, `"input":["BREAKFAST","MAPLE LEAVES","SCENERY","ROKKO MOUNTAIN","SUNSET","HOT SPRINGS","PEAK","NARITA AIRPORT","SPEAKER","MORNING","3 DEGREES","PINOCCHIO'S STORY"]`), status: 200,
			want:  map[string]string{"data.#": `12`, "data.11.index": `11`, "data.0.index": `0`},
			check: same("data.11.embedding", "PINOCCHIO'S STORY"),
		},
		{
			saw: "an empty text was 500, or embedded as a space", thread: "ollama/ollama#5781", path: path,
			body: of(embedder, `"input":["","b"]`), status: 200, want: map[string]string{"data.#": `2`, "data.1.index": `1`, "data.0.embedding.#": `256`},
			check: func(t *testing.T, a *answer) {
				same("data.1.embedding", "b")(t, a)
				if near(dot(a.list("data.0.embedding"), vector(t, " ")), 1) {
					t.Error("it is the vector of a space")
				}
			},
		},
		{
			saw: "lists of token ids were refused, or read as one list", thread: "openvinotoolkit/model_server#2775", path: path,
			body: of(embedder, `"input":[[0,340,322],[340]]`), status: 200,
			want:  map[string]string{"data.#": `2`, "usage.prompt_tokens": `4`},
			check: same("data.0.embedding", "Is it"),
		},
		{
			saw: "a vector held a number that is out of JSON's range", thread: "vllm-project/vllm#19661", path: path, body: of(embedder, `"input":"What is the capital of China?"`), status: 200,
			check: func(t *testing.T, a *answer) {
				if v := a.list("data.0.embedding"); !near(dot(v, v), 1) {
					t.Errorf("the length is %v", dot(v, v))
				}
			},
		},
		{
			saw: "too long a text was a riddle of a 413", thread: "langgenius/dify#6807", path: path,
			body: of(embedder, `"input":"`+strings.Repeat("blahblabh", 20000)+`"`), status: 400, want: map[string]string{"error.code": `"context_length_exceeded"`}, check: says("16384"),
		},
		{
			saw: "truncate_prompt_tokens kept the wrong tokens", thread: several, path: path, body: of(embedder, `"input":[340,322,37,340],"truncate_prompt_tokens":2,"truncation_side":"right"`), status: 200,
			want: map[string]string{"usage.prompt_tokens": `2`},
			check: func(t *testing.T, a *answer) {
				b := ask(t, path, of(embedder, `"input":[340,322]`))
				if !near(dot(a.list("data.0.embedding"), b.list("data.0.embedding")), 1) {
					t.Error("it is not the vector of the first two")
				}
			},
		},
		{
			saw: "a text's vector depended on what was beside it in the batch", thread: several, path: path,
			body: of(embedder, `"input":["short","`+strings.Repeat("a long text of many words ", 40)+`","b"]`), status: 200, check: same("data.0.embedding", "short"),
		},
		{
			saw: "a model that makes no vectors answered 500", thread: several, path: path, body: of(reranker, `"input":"w1"`), status: 400,
			want: map[string]string{"error.code": `"unsupported_task"`}, check: says(reranker),
		},
	})
}

func TestDocumentsInOrder(t *testing.T) {
	documents := `"query":"w1 w2","documents":["w3","w4 w5","w6 w7 w8","w3"]`
	sorted := func(t *testing.T, a *answer) {
		last := math.Inf(1)
		for i := range int(a.number("results.#")) {
			index, score := a.number(fmt.Sprintf("results.%d.index", i)), a.number(fmt.Sprintf("results.%d.relevance_score", i))
			if !(score <= last) || !(index >= 0 && index < 4) {
				t.Fatalf("result %d is of document %v, with %v behind %v", i, index, score, last)
			}
			last = score
			alone := ask(t, "/score", of(reranker, `"text_1":"w1 w2","text_2":"`+[]string{"w3", "w4 w5", "w6 w7 w8", "w3"}[int(index)]+`"`))
			if !near(score, alone.number("data.0.score")) {
				t.Errorf("document %v has %v, and %v alone", index, score, alone.number("data.0.score"))
			}
		}
	}
	refused := func(saw, path, fields string) row {
		return row{saw: saw, thread: several, path: path, body: of(reranker, fields), status: 400}
	}
	run(t, []row{
		{
			saw: "results were unsorted and top_n was ignored", thread: "mudler/LocalAI#7189", path: "/v1/rerank", body: of(reranker, documents+`,"top_n":1`), status: 200,
			want: map[string]string{"results.#": `1`}, check: sorted,
		},
		{
			saw: "scores went to the wrong documents, as the index was not that of the request", thread: "run-llama/llama_index#20597", path: "/v1/rerank", body: of(reranker, documents), status: 200,
			want: map[string]string{"results.#": `4`}, check: sorted,
		},
		{
			saw: "documents that are there twice shifted the index", thread: "langgenius/dify#1661", path: "/v1/rerank", body: of(reranker, `"query":"w1","documents":["w2","w2","w2"]`), status: 200,
			want: map[string]string{"results.#": `3`},
			check: func(t *testing.T, a *answer) {
				seen := a.number("results.0.index") + a.number("results.1.index") + a.number("results.2.index")
				if seen != 3 || a.number("results.0.relevance_score") != a.number("results.2.relevance_score") {
					t.Error("not each of the three, with the same score")
				}
			},
		},
		{
			saw: "nobody knew what top_n above the number of documents does", thread: "michaelfeil/infinity#404", path: "/v1/rerank", body: of(reranker, documents+`,"top_n":100`), status: 200,
			want: map[string]string{"results.#": `4`}, check: sorted,
		},
		{
			saw: "TEI's results, the best first, were taken for the order of the texts", thread: "run-llama/llama_index#20599", path: "/rerank", body: of(reranker, `"query":"w1 w2","texts":["w3","w4 w5","w6 w7 w8"]`), status: 200,
			want: map[string]string{"#": `3`},
			check: func(t *testing.T, a *answer) {
				if !(a.number("0.score") >= a.number("1.score") && a.number("1.score") >= a.number("2.score")) {
					t.Error("the best is not the first")
				}
			},
		},
		refused("no documents were a server error", "/v1/rerank", `"query":"w1","documents":[]`),
		refused("top_n 1.5 was rounded", "/v1/rerank", documents+`,"top_n":1.5`),
		refused("a list for a query was ranked by its first", "/v1/rerank", `"query":["w1"],"documents":["w2"]`),
		{
			saw: "documents that are objects were ranked by their braces", thread: several, path: "/v1/rerank", body: of(reranker, `"query":"w1","documents":[{"text":"w2"},"w2"],"return_documents":false`), status: 200,
			want: map[string]string{"results.#": `2`, "results.0.document": `"missing"`},
			check: func(t *testing.T, a *answer) {
				if s := a.number("results.0.relevance_score"); !(s > 0 && s < 1) || s != a.number("results.1.relevance_score") {
					t.Error("the two have not the same score")
				}
			},
		},
		{
			saw: "Cohere's path answered in Jina's words", thread: several, path: "/v2/rerank", body: of(reranker, documents+`,"top_n":2`), status: 200,
			want: map[string]string{"results.#": `2`, "results.0.document": `"missing"`, "meta.api_version.version": `"2"`}, check: sorted,
		},
		{
			saw: "a class of one label had the probability 1", thread: several, path: "/classify", body: of(reranker, `"input":["w1","w2"]`), status: 200,
			want: map[string]string{"data.#": `2`, "data.0.label": `"LABEL_0"`, "data.0.num_classes": `1`, "data.1.index": `1`},
			check: func(t *testing.T, a *answer) {
				if p := a.number("data.0.probs.0"); !(p > 0 && p < 1) {
					t.Errorf("%v is no sigmoid", p)
				}
			},
		},
		refused("a query that is missing was read as empty", "/v1/rerank", `"documents":["w1"]`),
		refused("a negative top_n cut from the end", "/v1/rerank", documents+`,"top_n":-1`),
		refused("two lists of unequal lengths were scored as far as the shorter went", "/score", `"text_1":["w1","w2"],"text_2":["w3","w4","w5"]`),
		refused("an empty list was scored as nothing", "/score", `"text_1":"w1","text_2":[]`),
		refused("a pair longer than the model takes was cut without a word", "/score", `"text_1":"w1","text_2":"`+strings.Repeat("w2 ", 100)+`"`),
		{
			saw: "a list with a list was scored crosswise", thread: several, path: "/score", body: of(reranker, `"text_1":["w1","w2"],"text_2":["w3","w4"]`), status: 200,
			want: map[string]string{"data.#": `2`, "data.1.index": `1`},
			check: func(t *testing.T, a *answer) {
				if b := ask(t, "/score", of(reranker, `"text_1":"w2","text_2":"w4"`)); !near(a.number("data.1.score"), b.number("data.0.score")) {
					t.Error("the second is not that of the second pair")
				}
			},
		},
		{
			saw: "the longer text of a pair took all the room when it was cut", thread: several, path: "/score",
			body: of(reranker, `"text_1":"w1","text_2":"`+strings.Repeat("w2 ", 100)+`","truncate_prompt_tokens":-1`), status: 200, want: map[string]string{"usage.prompt_tokens": `64`},
		},
		{
			saw: "an embedder's score was no cosine", thread: several, path: "/score", body: of(embedder, `"text_1":"a cat","text_2":["a dog","a cat"]`), status: 200,
			check: func(t *testing.T, a *answer) {
				if want := dot(vector(t, "a cat"), vector(t, "a dog")); !near(a.number("data.0.score"), want) || !near(a.number("data.1.score"), 1) {
					t.Errorf("%v and %v, want %v and 1", a.number("data.0.score"), a.number("data.1.score"), want)
				}
			},
		},
		{
			saw: "raw scores were sigmoids", thread: several, path: "/rerank", body: of(reranker, `"query":"w1","texts":["w2"],"raw_scores":true`), status: 200,
			check: func(t *testing.T, a *answer) {
				b := ask(t, "/rerank", of(reranker, `"query":"w1","texts":["w2"]`))
				if !near(1/(1+math.Exp(-a.number("0.score"))), b.number("0.score")) {
					t.Errorf("%v is not the logit of %v", a.number("0.score"), b.number("0.score"))
				}
			},
		},
		{
			saw: "a generator was asked to rank and answered 500", thread: several, path: "/v1/rerank", body: of(generator, documents), status: 400,
			want: map[string]string{"error.code": `"unsupported_task"`}, check: says(generator),
		},
	})
}
