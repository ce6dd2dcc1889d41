// Package pooling is the JSON in which users ask for embeddings, scores, rankings and classes: that of OpenAI, vLLM, SGLang,
// Jina, Cohere and text-embeddings-inference (TEI), each decoded to one Request and answered in its own words.
package pooling

import (
	"encoding/json"
	"slices"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/fields"
)

// Task is what a request asks of the model.
type Task uint8

// The tasks.
const (
	Embed         Task = iota // a vector of each input
	EmbedTokens               // a vector of each token
	Classify                  // the classes of each input
	ClassifyToken             // the classes of each token
	Score                     // how well each pair of a query and a document fits
	Similarity                // the cosine of each such pair
	Labels                    // the probabilities of tokens that may follow each prompt
	ByModel                   // what the model is for
)

// Bounds on what one request may ask.
const (
	MaxInputs = 4096 // inputs, pairs or items
	MaxLabels = 4096 // of Request.Labels
)

// Input is a text, or the tokens of one. A Pair is the text behind it, for models that read two.
type Input struct {
	Text   string
	Pair   *string  `json:",omitempty"`
	Tokens []uint32 `json:",omitempty"`
}

// Fit says what becomes of an input that is longer than it may be: without it, it is refused.
type Fit struct {
	Most     int  `json:",omitempty"` // tokens that are kept, special ones included; -1: as many as the model takes; 0: all
	Left     bool `json:",omitempty"` // the beginning is cut off, not the end
	Query    int  `json:",omitempty"` // tokens of a query, and of a document, that are kept; 0: all
	Document int  `json:",omitempty"`
}

// Asker is what the body says of the model that it asks, and of who asks.
func (r *Request) Asker() api.Asker {
	return api.Asker{Model: r.Model, User: r.User, RequestID: r.RequestID}
}

// Request is what one body asks. Of a Task only its own fields are set.
type Request struct {
	Model     string `json:",omitempty"`
	User      string `json:",omitempty"`
	Salt      string `json:",omitempty"`
	RequestID string `json:",omitempty"`
	Priority  int    `json:",omitempty"`

	Task       Task
	Field      string          // that the inputs, or the documents, came in
	QueryField string          `json:",omitempty"`
	Inputs     []Input         `json:",omitempty"`
	Messages   json.RawMessage `json:",omitempty"` // in place of Inputs
	Templating api.Templating
	Queries    []string `json:",omitempty"` // of Score and Similarity: one, or as many as Documents
	Documents  []string `json:",omitempty"`
	AddSpecial bool     // the tokenizer's special tokens are put around texts
	Fit        Fit

	Prompt      *string       `json:",omitempty"` // name of the checkpoint's prompt that texts get in front
	PromptAmong []string      `json:",omitempty"` // names, of which the first that the checkpoint has is Prompt
	Instruction string        `json:",omitempty"` // of a reranker that takes one
	Dimensions  int           `json:",omitempty"` // that are left of a vector; 0: all
	Normalize   *bool         `json:",omitempty"` // vectors have the length 1; nil: as the checkpoint says
	Activate    *bool         `json:",omitempty"` // false: logits, as they are; nil: as the checkpoint says
	Labels      api.TokenList `json:",omitempty"` // of the task Labels
	Softmax     bool          `json:",omitempty"` // probabilities among the labels, not among all tokens
	Temperature float64       `json:",omitempty"` // of Softmax
	ItemFirst   bool          `json:",omitempty"` // items go before the query
	Separate    bool          `json:",omitempty"` // query and items are tokenized apart, not as one text
	Query       *Input        `json:",omitempty"` // of Labels
	answer      func(b []byte, spill api.Spill, a *Answer) []byte
}

// Answer is what came of a Request.
type Answer struct {
	ID      string // of the request
	Created int64
	Model   string // as the client named it
	Usage   *api.Usage
	Results []Result
	Classes []string // the names of Result.Scores, of a task that has classes

	request *Request
}

// Result is what came of one input, or of one pair or item.
type Result struct {
	Vector []float32 // an embedding, or those of all tokens one after the other
	Rows   int       // vectors in Vector
	Scores []float64 // of classes, of labels, or the one of a pair; of tokens one after the other
}

// Answered is what r is answered with.
func (r *Request) Answered(a Answer) api.Encoder {
	a.request = r
	return &a
}

// AppendJSON implements api.Encoder.
func (a *Answer) AppendJSON(b []byte, spill api.Spill) []byte { return a.request.answer(b, spill, a) }

// Endpoint is a path with its shapes.
type Endpoint struct {
	Path   string
	About  string                    // what it answers
	Bodies []fields.Schema           // that it takes, any of them
	Answer fields.Schema             // of a 200
	Errors func(body []byte) Dialect // in which a body, or nil, is refused
	Forms  []Dialect                 // that Errors may be
	Decode func(body []byte) (*Request, *api.Error)
}

// Endpoints are all of them.
func Endpoints() []Endpoint {
	var list []Endpoint
	add := func(errors Dialect, decode func([]byte) (*Request, *api.Error), about string, answer fields.Schema, bodies []fields.Schema, paths ...string) {
		for _, path := range paths {
			list = append(list, Endpoint{path, about, bodies, answer, func([]byte) Dialect { return errors }, []Dialect{errors}, decode})
		}
	}
	add(Jina, decodeEmbeddings, "Vectors of inputs, in OpenAI's form", indexedListSchema("embedding", vectorText), bodySchemas[embeddingsBody](), "/v1/embeddings", "/embeddings")
	add(OpenAI, decodeScore, "How well pairs of texts fit, in vLLM's form, or probabilities of labels, in SGLang's", fields.AnyOf(indexedListSchema("score", number), labelScores), slices.Concat(bodySchemas[scoreBody](), bodySchemas[labelScoresBody]()), "/v1/score", "/score")
	add(Jina, decodeRerank, "Documents, the best first, in Jina's form", reranked, bodySchemas[ranking](), "/v1/rerank", "/v1/reranking", "/reranking")
	add(Cohere, decodeCohereRerank, "Documents, the best first, in Cohere's form", cohereRanked, bodySchemas[ranking](), "/v2/rerank")
	add(Cohere, decodeCohereEmbed("1"), "Vectors of texts, in Cohere's first form", cohereVectors, bodySchemas[cohereEmbed](), "/v1/embed")
	add(Cohere, decodeCohereEmbed("2"), "Vectors of texts, in Cohere's second form", cohereVectors, bodySchemas[cohereEmbed](), "/v2/embed")
	add(OpenAI, decodeNIMRanking, "Passages, the best first, in NIM's form", rankings, bodySchemas[rankingBody](), "/v1/ranking")
	add(OpenAI, decodeGenerative, "The probability of the first label behind each item, in vLLM's form", indexedListSchema("score", number), bodySchemas[labelled](), "/generative_scoring")
	add(OpenAI, decodeClassify, "Classes of inputs, in vLLM's form", classified, bodySchemas[classifyBody](), "/v1/classify", "/classify")
	add(OpenAI, decodePooling, "What the model is for, or the task asks, of inputs, in vLLM's form", indexedListSchema("data", fields.AnyOf(vectorText, fields.ListOf(numbers))), bodySchemas[poolingBody](), "/pooling")
	add(TEI, decodeEmbed, "Vectors of inputs, in TEI's form", fields.ListOf(numbers), bodySchemas[embedBody](), "/embed")
	add(TEI, decodeEmbedAll, "Vectors of the tokens of inputs, in TEI's form", fields.ListOf(fields.ListOf(numbers)), bodySchemas[embedAllBody](), "/embed_all")
	add(TEI, decodePredict, "Classes of inputs, in TEI's form", fields.AnyOf(predictions, fields.ListOf(predictions)), bodySchemas[predictBody](), "/predict")
	add(TEI, decodeSimilarity, "How alike sentences are, in TEI's form", numbers, bodySchemas[similarityBody](), "/similarity")
	return append(list, Endpoint{
		"/rerank", "Documents, the best first, in Jina's form or in TEI's", slices.Concat(bodySchemas[ranking](), bodySchemas[teiRerankBody]()), fields.AnyOf(reranked, teiRanked),
		rerankDialect, []Dialect{Jina, TEI}, decodeEitherRerank,
	})
}
