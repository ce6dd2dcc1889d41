package scoring

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/checkpoint"
	"github.com/prefillonly/prefillonly/engine/client/clienttest"
)

func scoresOf(prefix string, tokens, cached int, scores ...string) string {
	list := make([]string, len(scores))
	for i, s := range scores {
		list[i] = `{"index":` + string(rune('0'+i)) + `,"object":"score","score":` + s + `}`
	}
	return head(prefix) + strings.Join(list, ",") + `]` + usage(tokens, cached)
}

// TestQueryTimesDocumentsIsBounded: a query that each document is read with counts as often, where it is read as it is and in a template.
func TestQueryTimesDocumentsIsBounded(t *testing.T) {
	for name, m := range map[string]checkpoint.Model{"pairs": crossEncoder, "template": {Kind: checkpoint.Classifier, Pool: engine.PoolFirst, Labels: []string{"LABEL_0"}}} {
		w := newWorld(t, m)
		if name == "template" {
			w.subject.Text.Template, w.subject.Text.Specials = template{}, templated{}
		}
		w.most = 150
		query := strings.Repeat("q", 20)
		w.check("/v1/score", `{"text_1":"`+query+`","text_2":["a","b","c"]}`, `"index":2`)
		w.check("/v1/score", `{"text_1":"`+query+`","text_2":["a","b","c","d","e","f","g","h"]}`, "each with what is read beside it, have more than 150 tokens in all")
	}
}

// TestInputsTimesNumbersAreBounded: an answer of more numbers than one may have is refused before anything is computed.
func TestInputsTimesNumbersAreBounded(t *testing.T) {
	w := newWorld(t, checkpoint.Model{Kind: checkpoint.Embedder, Pool: engine.PoolMean})
	wide := clienttest.Welcome(2, 300)
	limits := wide.Served[1].Tokens
	limits.Hidden, limits.MaxModelLen = 1<<24, longest
	w.pool.Deliver(wide)
	w.check("/v1/embeddings", `{"input":["a","b","c","d","e"]}`, "would have 83886080 numbers; one request may ask for 67108864")
}

var crossEncoder = checkpoint.Model{Kind: checkpoint.Classifier, Pool: engine.PoolFirst, Labels: []string{"LABEL_0"}, Activation: checkpoint.Sigmoid}

// TestScorePairs: a cross-encoder reads each pair by the tokenizer's template, in every form that vLLM takes.
func TestScorePairs(t *testing.T) {
	w := newWorld(t, crossEncoder)
	const zero, one, two = "0.5", "0.7310585786300049", "0.8807970779778823"
	for _, body := range []string{
		`{"queries":"x","documents":["a","aa"]}`, `{"queries":["x"],"items":["a","aa"]}`, `{"data_1":["x","x"],"data_2":["a","aa"]}`, `{"text_1":"x","text_2":["a","aa"],"use_activation":true}`,
		`{"queries":{"content":[{"type":"text","text":"x"}]},"documents":[{"content":[{"type":"text","text":"a"}]},{"text":"aa"}]}`,
	} {
		w.check("/v1/score", body, scoresOf("score", 7, 2, one, two), "^x|a", "^x|aa")
	}
	w.check("/score", `{"text_1":"a","text_2":"b","use_activation":false}`, scoresOf("score", 3, 1, "1"), "^a|b")
	w.check("/score", `{"text_1":"xxaa","text_2":"bbaa","max_tokens_per_query":2,"max_tokens_per_doc":2}`, scoresOf("score", 5, 1, zero), "^xx|bb")
	w.check("/score", `{"text_1":"xxxx","text_2":"aaaaaaaa","truncate_prompt_tokens":7}`, scoresOf("score", 7, 1, "0.9525741268224334"), "^xxx|aaa")
	if ask := w.last().Ask; ask.Pool != engine.PoolFirst || !ask.Head || ask.Second != 4 {
		t.Errorf("asked %+v", ask)
	}
	long := strings.Repeat("b", 39)
	for body, want := range map[string]string{
		`{"text_1":["a","b"],"text_2":["a","b","c"]}`: "text_1 has 2 elements and text_2 has 3",
		`{"text_1":"a"}`:                                             "the pairs are missing",
		`{"text_1":"a","text_2":[]}`:                                 "text_2 is an empty list",
		`{"text_1":"a","text_2":[{"image":1}]}`:                      "neither a string nor an object with text",
		`{"text_1":"a","text_2":{"content":[{"type":"image_url"}]}}`: `a part of type "image_url"`,
		`{"text_1":"a","text_2":["b","` + long + `"]}`:               "text_2[1] has 41 tokens",
		`{"text_1":"a","text_2":"b","max_tokens_per_doc":-1}`:        "max_tokens_per_doc is -1",
		`{"query":"a","items":["b"],"label_token_ids":[1]}`:          "a classifier of 1 classes: it does not answer generative_scoring, but classify, pooling, score and rerank",
	} {
		w.check("/score", body, want)
	}
	w.subject.Labels = []string{"a", "b"}
	w.check("/score", `{"text_1":"a","text_2":"b"}`, "the model `demo` is a classifier of 2 classes: it does not answer score, but classify and pooling")
}

// TestScoreByVectors: an embedder compares vectors, each text's with the prompt that the checkpoint has for it.
func TestScoreByVectors(t *testing.T) {
	m := checkpoint.Model{Kind: checkpoint.Embedder, Pool: engine.PoolLast, Normalize: true, Prompts: map[string]string{"query": "q:", "passage": "p:"}}
	w := newWorld(t, m)
	w.check("/score", `{"queries":"a","documents":["aab","b","x"]}`, scoresOf("score", 18, 4, "0.894427190999916", "0", "0"), "^q:a", "^p:aab", "^p:b", "^p:x")
	w.check("/score", `{"queries":["a","b"],"documents":["a","bb"]}`, scoresOf("score", 17, 4, "1", "1"))
	w.check("/similarity", `{"inputs":{"source_sentence":"a","sentences":["a","b"]}}`, `[1,0]`, "^a", "^a", "^b")
	w.check("/similarity", `{"inputs":{"source_sentence":"a","sentences":["a"]},"parameters":{"prompt_name":"query"}}`, `[1]`, "^q:a", "^q:a")
	w.check("/similarity", `{"inputs":{"source_sentence":"a"}}`, "inputs.sentences is missing")
	for how, want := range map[checkpoint.Similarity]string{checkpoint.Dot: "6", checkpoint.Euclidean: "-1", checkpoint.Manhattan: "-1"} {
		m.Similarity, m.Normalize = how, false
		newWorld(t, m).check("/similarity", `{"inputs":{"source_sentence":"aa","sentences":["aaa"]}}`, `[`+want+`]`)
	}
	newWorld(t, crossEncoder).check("/similarity", `{"inputs":{"source_sentence":"a","sentences":["a"]}}`, "does not answer the similarity of embeddings")
}

// TestReranker: Qwen3-Reranker's P(yes) / (P(yes) + P(no)) behind its own text.
func TestReranker(t *testing.T) {
	w := newWorld(t, checkpoint.Model{Kind: checkpoint.Reranker, Labels: []string{"yes"}, Activation: checkpoint.Sigmoid, Pairs: checkpoint.ByQwen3, Yes: checkpoint.Token{Text: "yes"}, No: checkpoint.Token{Text: "no"}})
	w.check("/score", `{"queries":"q","documents":"d"}`, `"yes" is 3 tokens of its vocabulary, not one`)
	w.subject.Text.Tokenizer = words{w.subject.Text.Tokenizer}
	w.widen(2000)
	const third = "0.33333333291007683" // an N is in the text around
	w.check("/score", `{"queries":"q","documents":["no","yes yes yes"],"instruction":"I"}`,
		scoresOf("score", 2*len(qwen3Before+qwen3After+"<Instruct>: I\n<Query>: q\n<Document>: ")+len("no")+len("yes yes yes"), 2, third, third),
		qwen3Before+"<Instruct>: I\n<Query>: q\n<Document>: no"+qwen3After, qwen3Before+"<Instruct>: I\n<Query>: q\n<Document>: yes yes yes"+qwen3After)
	if work := w.last(); work.Max != 1 || len(work.Ask.Labels) != 2 || work.Ask.Labels[0] != 'Y' || work.Ask.Labels[1] != 'N' || work.Ask.Pool != engine.PoolNone {
		t.Errorf("asked %+v", work)
	}
	w.check("/score", `{"queries":"q","documents":"YYY"}`, `"score":0.666666`)
	w.check("/rerank", `{"query":"q","texts":["YYY"],"raw_scores":true}`, `[{"index":0,"score":0.693147`)
	if text := w.prompts()[2]; !strings.Contains(text, qwen3Instruction) {
		t.Errorf("prompt %q", text)
	}
	w.check("/score", `{"queries":"q","documents":"`+strings.Repeat("d", 3000)+`","truncate_prompt_tokens":-1}`, `"prompt_tokens":1999`)
	if text := w.prompts()[4]; !strings.HasPrefix(text, qwen3Before) || !strings.HasSuffix(text, "d"+qwen3After) {
		t.Errorf("truncated to %q", text)
	}
	w.check("/score", `{"queries":"q","documents":"`+strings.Repeat("d", 3000)+`end","truncate_prompt_tokens":-1,"truncation_side":"left"}`, `"prompt_tokens":1999`)
	if text := w.prompts()[5]; !strings.Contains(text, "<Query>: q\n<Document>: ddd") || !strings.HasSuffix(text, "dend"+qwen3After) {
		t.Errorf("truncated to %q", text)
	}
	written, err := json.Marshal(map[string]any{"query": qwen3Before + "<Instruct>: I\n<Query>: q\n", "documents": []string{"<Document>: d" + qwen3After}})
	if err != nil {
		t.Fatal(err)
	}
	w.check("/rerank", string(written), `"relevance_score":0.33`, qwen3Before+"<Instruct>: I\n<Query>: q\n<Document>: d"+qwen3After)
	w.subject.Yes, w.subject.No, w.subject.Activation = checkpoint.Token{ID: 'Y'}, checkpoint.Token{ID: 'N'}, checkpoint.Identity
	w.check("/score", `{"queries":"q","documents":"YYY"}`, `"score":0.693147`)
	w.check("/score", `{"queries":"q","documents":"YYY","use_activation":true}`, `"score":0.693147`)
	w.check("/rerank", `{"query":"q","texts":["YYY"]}`, `"score":0.666666`)
}

// TestTemplatedPairs: a chat template of queries and documents makes the pairs of a reranker that has one.
func TestTemplatedPairs(t *testing.T) {
	w := newWorld(t, crossEncoder)
	w.subject.Text.Template, w.subject.Text.Specials = template{}, templated{}
	w.widen(60)
	w.check("/score", `{"queries":"x","documents":"ab","instruction":"i"}`, `"score":0.`, `s:i;q:x;d:ab;false{"instruction":"i"}`)
	w.subject.Prompts, w.subject.Default = map[string]string{"web": "w"}, "web"
	w.subject.TemplateVariables = map[string]json.RawMessage{"add_generation_prompt": json.RawMessage("true"), "y": json.RawMessage("1"), "z": json.RawMessage("2")}
	w.check("/score", `{"queries":"x","documents":"ab","chat_template_kwargs":{"z":3}}`, `"score":0.`, `s:w;q:x;d:ab;true{"instruction":"w","y":1,"z":3}`)
	w.subject.TemplateVariables = nil
	long := strings.Repeat("a", 30) + strings.Repeat("b", 30)
	w.check("/score", `{"queries":"x","documents":"`+long+`","truncate_prompt_tokens":50}`, `"prompt_tokens":50`, `s:w;q:x;d:aaaaaaaaaaaaaaa;false{"instruction":"w"}`)
	w.check("/score", `{"queries":"x","documents":"`+long+`","truncate_prompt_tokens":50,"truncation_side":"left"}`, `"prompt_tokens":50`, `s:w;q:x;d:bbbbbbbbbbbbbbb;false{"instruction":"w"}`)
	w.check("/score", `{"queries":"`+long+`","documents":"a","truncate_prompt_tokens":50}`, `documents[0] is read with 94 tokens around it, which are never truncated; the model `+"`demo` takes 60")
}

// TestRerank: the best first, in the forms of Jina, Cohere, TEI and NIM.
func TestRerank(t *testing.T) {
	w := newWorld(t, crossEncoder)
	const zero, one, two = "0.5", "0.7310585786300049", "0.8807970779778823"
	const documents = `"query":"x","documents":["b","aa","a"]`
	w.check("/v1/rerank", `{"model":"demo",`+documents+`}`, `{"id":"rerank-x","object":"rerank","created":7,"model":"demo","results":[{"index":1,"document":{"text":"aa"},"relevance_score":`+two+
		`},{"index":2,"document":{"text":"a"},"relevance_score":`+one+`},{"index":0,"document":{"text":"b"},"relevance_score":`+zero+`}]`+usage(10, 3), "^x|b", "^x|aa", "^x|a")
	w.check("/rerank", `{`+documents+`,"top_n":1,"return_documents":false}`, `{"id":"rerank-x","object":"rerank","created":7,"model":"demo","results":[{"index":1,"relevance_score":`+two+`}]`+usage(10, 3))
	w.check("/v2/rerank", `{`+documents+`,"top_n":2,"max_tokens_per_doc":4096}`, `{"id":"rerank-x","results":[{"index":1,"relevance_score":`+two+`},{"index":2,"relevance_score":`+one+
		`}],"meta":{"api_version":{"version":"2"},"billed_units":{"search_units":1},"tokens":{"input_tokens":10}}}`)
	w.check("/rerank", `{"query":"x","texts":["b","aa"],"return_text":true}`, `[{"index":1,"text":"aa","score":`+two+`},{"index":0,"text":"b","score":`+zero+`}]`)
	w.check("/rerank", `{"query":"x","texts":["b","aa"],"raw_scores":true}`, `[{"index":1,"score":2},{"index":0,"score":0}]`)
	w.check("/v1/ranking", `{"model":"demo","query":{"text":"x"},"passages":[{"text":"b"},{"text":"aa"}]}`, `{"rankings":[{"index":1,"logit":2},{"index":0,"logit":0}]`+usage(7, 2))
	w.check("/v1/ranking", `{"query":{"text":"x"},"passages":[{"text":"`+strings.Repeat("a", 50)+`"}],"truncate":"END"}`, `{"rankings":[{"index":0,"logit":38}]`+usage(40, 1))
	for body, want := range map[string]string{
		`{"documents":["a"]}`: "query is missing", `{"query":"a"}`: "documents is missing", `{"query":"a","documents":["b"],"top_n":-1}`: "top_n is -1",
		`{"query":"a","documents":["b"],"rank_fields":["title"]}`: "rank_fields is not supported", `{"texts":["a"]}`: "query is missing", `{"query":"a","texts":[]}`: "texts is an empty list",
		`{"query":"a","texts":["a"],"truncation_direction":"up"}`: "truncation_direction is \"up\"",
	} {
		w.check("/rerank", body, want)
	}
	w.check("/v1/ranking", `{"query":"x","passages":["a"],"truncate":"START"}`, `truncate is "START"`)
}

// TestClassify: probabilities by the activation of the checkpoint, with its labels.
func TestClassify(t *testing.T) {
	m := checkpoint.Model{Kind: checkpoint.Classifier, Pool: engine.PoolLast, Labels: []string{"neg", "pos"}, Activation: checkpoint.Softmax}
	w := newWorld(t, m)
	const low, high = "0.2689414213699951", "0.7310585786300049"
	w.check("/classify", `{"input":["bb b","aab"]}`, head("classify")+`{"index":0,"label":"pos","probs":[0.04742587317756679,0.9525741268224334],"num_classes":2},{"index":1,"label":"neg","probs":[`+high+`,`+low+
		`],"num_classes":2}]`+usage(9, 2), "^bb b", "^aab")
	w.check("/v1/classify", `{"input":[97,98],"use_activation":false}`, head("classify")+`{"index":0,"label":"neg","probs":[1,1],"num_classes":2}]`+usage(2, 1), "ab")
	w.check("/predict", `{"inputs":"aab"}`, `[{"score":`+high+`,"label":"neg"},{"score":`+low+`,"label":"pos"}]`, "^aab")
	w.check("/predict", `{"inputs":["a","b"],"raw_scores":true}`, `[{"score":1,"label":"neg"},{"score":1,"label":"pos"}]`, "^a|b")
	w.check("/predict", `{"inputs":[["b"],["a","ab"]]}`, `[[{"score":`+high+`,"label":"pos"},{"score":`+low+`,"label":"neg"}],[{"score":`+high+`,"label":"neg"},{"score":`+low+`,"label":"pos"}]]`, "^b", "^a|ab")
	w.check("/pooling", `{"input":"aab"}`, head("pool")+`{"index":0,"object":"pooling","data":[0.7310586,0.26894143]}]`+usage(4, 1))
	w.check("/pooling", `{"input":"ab","task":"token_classify","use_activation":false}`, head("pool")+`{"index":0,"object":"pooling","data":[[0,0],[1,0],[0,1]]}]`+usage(3, 1))
	w.check("/pooling", `{"input":"a","task":"embed"}`, "it does not answer embeddings")
	encoder := m
	encoder.Pool = engine.PoolFirst
	newWorld(t, encoder).check("/pooling", `{"input":"a","task":"token_classify"}`, "it does not answer token_classify, but classify and pooling")
	w.check("/pooling", `{"input":"a","task":"plugin"}`, `task is "plugin"`)
	w.check("/predict", `{"inputs":[["a","b","c"]]}`, "input 0 of inputs has 3 texts")
	w.check("/predict", `{"inputs":[]}`, "inputs is an empty list")
	w.check("/predict", `{"inputs":null}`, "inputs is missing")
	m.Activation = checkpoint.Sigmoid
	newWorld(t, m).check("/classify", `{"input":"a"}`, `"probs":[`+high+`,0.5]`)
	m.Kind, m.PerToken, m.Activation = checkpoint.Reward, true, checkpoint.Identity
	w = newWorld(t, m)
	w.check("/pooling", `{"input":"ab"}`, head("pool")+`{"index":0,"object":"pooling","data":[[0,0],[1,0],[0,1]]}]`+usage(3, 1))
	w.check("/classify", `{"input":"ab"}`, "the model `demo` is a reward model: it does not answer classify, but pooling")
}

// TestTEIEmbeddings: vectors of length 1 unless that is not asked for, truncated where that is asked for, and those of all tokens.
func TestTEIEmbeddings(t *testing.T) {
	w := newWorld(t, checkpoint.Model{Kind: checkpoint.Embedder, Pool: engine.PoolMean, Prompts: map[string]string{"q": "c"}})
	w.check("/embed", `{"inputs":"aaabbbb"}`, `[[0.6,0.8,0,0]]`, "^aaabbbb")
	w.check("/embed", `{"inputs":["a","bb"],"normalize":false,"prompt_name":"q","dimensions":3}`, `[[1,0,1],[0,2,1]]`, "^ca", "^cbb")
	w.check("/embed", `{"inputs":"`+strings.Repeat("a", 50)+`"}`, "no more than 40 bytes")
	w.check("/embed", `{"inputs":"`+strings.Repeat("a", 50)+`bb","truncate":true,"truncation_direction":"Left","normalize":false}`, `[[37,2,0,0]]`)
	w.check("/embed_all", `{"inputs":["ab","c"]}`, `[[[0,0,0,0],[1,0,0,0],[0,1,0,0]],[[0,0,0,0],[0,0,1,0]]]`, "^ab", "^c")
	w.check("/pooling", `{"input":"a","task":"token_embed"}`, head("pool")+`{"index":0,"object":"pooling","data":[[0,0,0,0],[1,0,0,0]]}]`+usage(2, 1))
	if ask := w.last().Ask; ask.Pool != engine.PoolAll || ask.Head {
		t.Errorf("asked %+v", ask)
	}
}

// TestLabels: probabilities of labels behind a query and an item, in vLLM's form and in SGLang's.
func TestLabels(t *testing.T) {
	w := newWorld(t, checkpoint.Model{Kind: checkpoint.Generator, Pool: engine.PoolLast})
	w.check("/generative_scoring", `{"query":"aa ","items":["x","b"],"label_token_ids":[97,98]}`, scoresOf("generative-scoring", 10, 2, "0.7500000037188914", "0.600000004303064"), "^aa x", "^aa b")
	w.check("/generative_scoring", `{"query":"a","items":["b"],"label_token_ids":[97,98],"apply_softmax":false,"item_first":true,"add_special_tokens":false}`, `"score":0.12499999928575464`, "ba")
	w.check("/generative_scoring", `{"query":[97],"items":[[98],[99]],"label_token_ids":[97]}`, scoresOf("generative-scoring", 4, 2, "1", "1"), "ab", "ac")
	w.check("/v1/score", `{"query":"a","items":["b","c"],"label_token_ids":[97,98],"apply_softmax":true}`, `{"object":"scoring","scores":[[0.5,0.5],[0.6666666`, "^ab", "^ac")
	w.check("/v1/score", `{"query":"a","items":"b","label_token_ids":[97,99],"item_first":true}`, `{"object":"scoring","scores":[[0.12499999928575464,0.0624`, "^ba")
	w.check("/v1/score", `{"query":"aaa","items":["b"],"label_token_ids":[97,98],"apply_softmax":true,"temperature":0.5}`, `{"object":"scoring","scores":[[0.8`)
	for body, want := range map[string]string{
		`{"query":"a","items":["b"],"label_token_ids":[[1]]}`:                                  "labels of their own for each item are not supported",
		`{"query":"a","items":["b"],"label_token_ids":[]}`:                                     "label_token_ids has 0 token ids",
		`{"query":"a","items":["b"]}`:                                                          "label_token_ids is missing",
		`{"query":["a"],"items":["b"],"label_token_ids":[1]}`:                                  "query must be a string",
		`{"query":"a","label_token_ids":[1]}`:                                                  "items is missing",
		`{"items":["a"],"label_token_ids":[1]}`:                                                "query is missing",
		`{"query":"a","items":["b"],"label_token_ids":[1],"temperature":0}`:                    "temperature is 0",
		`{"query":"a","items":["b"],"label_token_ids":[1],"temperature":2}`:                    "1 without apply_softmax",
		`{"query":"a","items":["b"],"label_token_ids":[1],"return_pooled_hidden_states":true}`: "return_pooled_hidden_states is not supported",
		`{"query":"a","items":["b"],"label_token_ids":[1000]}`:                                 "label_token_ids has token id 1000; the model's vocabulary has 300",
		`{"query":"a","items":["` + strings.Repeat("b", 38) + `"],"label_token_ids":[1]}`:      "items[0] has 40 tokens, special tokens included; the model `demo` takes 39",
	} {
		w.check("/v1/score", body, want)
	}
	w.check("/v1/rerank", `{"query":"a","documents":["b"]}`, "the model `demo` is a generator: it does not answer score, but completions, embeddings, pooling and generative_scoring")
}
