// Package decisions is the JSON of OpenAI's /v1/decisions and of TypeSafe's /v1/systemone: questions about one input, each
// of which has a few possible answers, and how likely these are.
package decisions

import (
	"encoding/json"

	"github.com/prefillonly/prefillonly/engine/api"
)

// Bounds on what one request may ask.
const (
	MaxQuestions = 400
	MaxOptions   = 255
	MaxLevels    = 10
)

// Kind is how a question is answered.
type Kind string

// The kinds. A predicate and a noul are true or false; levels of a score are in order.
const (
	Predicate Kind = "predicate"
	Choice    Kind = "choice"
	Score     Kind = "score"
	Noul      Kind = "noul"
)

// Question is one about a request's input.
type Question struct {
	Kind         Kind
	Name         *string // nil: it has none
	Instructions string
	Options      []Option // at least one
}

// Option is one possible answer. Of a predicate the first one is false and the second one true.
type Option struct {
	Text        string
	Description string          // may be empty
	Value       json.RawMessage // as the client wrote it: a string, or true or false
}

// Asker is what the body says of the model that it asks, and of who asks.
func (r *Request) Asker() api.Asker {
	return api.Asker{Model: r.Model, User: r.User, RequestID: r.RequestID}
}

// Request is a validated request of either API.
type Request struct {
	Model              string
	Messages           []Message // at least one; questions follow them
	Questions          []Question
	ChatTemplateKwargs map[string]json.RawMessage
	Salt, User         string // of the prefix cache; of fairness
	Priority           int
	RequestID          string

	answer func(*Request, *Answered) api.Encoder
}

// Message is one of a chat.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Answered is what was found for a request.
type Answered struct {
	ID        string
	Created   int64
	Model     string // as the client named it
	Questions []Found
	Tokens    int // of all prompts
	Cached    int // of these
}

// Found is how likely the options of a question are.
type Found struct {
	Probabilities []float64 // of Question.Options, together 1
	Mass          float64   // how likely it is that the model says any of them
	Likeliest     bool      // no other token is likelier than the likeliest option
	Sequences     bool      // options have labels of several tokens, which were scored whole
}

// topOption is the likeliest option, the first of several.
func (f *Found) topOption() int {
	best := 0
	for i, p := range f.Probabilities {
		if p > f.Probabilities[best] {
			best = i
		}
	}
	return best
}

// confidence is how likely the model says the chosen option, among everything that it may say.
func (f *Found) confidence() float64 { return f.Probabilities[f.topOption()] * f.Mass }

// meanLevel is the expected level.
func (f *Found) meanLevel() (sum float64) {
	for i, p := range f.Probabilities {
		sum += float64(i) * p
	}
	return sum
}

// Answer is the reply to the request.
func (r *Request) Answer(a *Answered) api.Encoder { return r.answer(r, a) }

// binaryOptions are the options of a predicate.
func binaryOptions(whenFalse, whenTrue string) []Option {
	return []Option{
		{Text: "false", Description: whenFalse, Value: json.RawMessage("false")},
		{Text: "true", Description: whenTrue, Value: json.RawMessage("true")},
	}
}

// reply is a value that encodes itself by reflection; answers are short.
type reply struct{ value any }

// AppendJSON implements api.Encoder.
func (r reply) AppendJSON(b []byte, _ api.Spill) []byte {
	body, err := json.Marshal(r.value)
	if err != nil {
		panic(err) // numbers and strings alone, all of them finite
	}
	return append(b, body...)
}
