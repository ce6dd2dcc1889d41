package pooling

import (
	"bytes"
	"encoding/json"

	"github.com/prefillonly/prefillonly/engine/api"
)

// labelled is what the two bodies that ask for probabilities of labels share.
type labelled struct {
	common
	Query     json.RawMessage `json:"query" is:"TextOrTokens" required:"true"`
	Items     json.RawMessage `json:"items" is:"Inputs" required:"true"`
	Labels    json.RawMessage `json:"label_token_ids" is:"Labels" required:"true"`
	Softmax   *bool           `json:"apply_softmax"`
	ItemFirst bool            `json:"item_first" default:"false"`
}

// fillRequest fills in the query, the items and the labels.
func (l *labelled) fillRequest(r *Request) *api.Error {
	if api.Neutral(l.Query, "") {
		return newEmptyError("query", "query is missing; give a string, or token ids")
	}
	query := &Request{}
	if err := query.readInputs("query", l.Query); err != nil {
		return err
	}
	if len(query.Inputs) != 1 || bytes.HasPrefix(bytes.TrimLeft(l.Query, "[ \t\r\n"), []byte{'"'}) && l.Query[0] == '[' {
		return api.Invalid("query", "query must be a string, or a list of token ids")
	}
	r.Query, r.Field = &query.Inputs[0], "items"
	if api.Neutral(l.Items, "") {
		return newEmptyError("items", "items is missing; give strings, or lists of token ids")
	}
	if err := r.readInputs("items", l.Items); err != nil {
		return err
	}
	if api.Neutral(l.Labels, "") {
		return api.Invalid("label_token_ids", "label_token_ids is missing; give the token ids whose probabilities are asked for")
	}
	if first := bytes.TrimLeft(l.Labels, " \t\r\n"); bytes.HasPrefix(bytes.TrimLeft(first[1:], " \t\r\n"), []byte{'['}) {
		return api.Invalid("label_token_ids", "label_token_ids is a list of lists; labels of their own for each item are not supported: give one list")
	}
	if err := refusalOf(r.Labels.Read("label_token_ids", l.Labels)); err != nil {
		return err
	}
	if n := len(r.Labels); n == 0 || n > MaxLabels {
		return api.Invalid("label_token_ids", "label_token_ids has %d token ids; it must have 1 to %d", n, MaxLabels)
	}
	r.Softmax, r.Temperature, r.ItemFirst = l.Softmax != nil && *l.Softmax, 1, l.ItemFirst
	return nil
}

// decodeGenerative decodes the body of POST /generative_scoring, vLLM's: an item's score is the probability of the first label.
func decodeGenerative(body []byte) (*Request, *api.Error) {
	var in labelled
	if err := api.Decode(body, &in); err != nil {
		return nil, err
	}
	r := in.newRequest(Labels)
	if err := in.fillRequest(r); err != nil {
		return nil, err
	}
	r.Separate, r.Softmax = true, in.Softmax == nil || *in.Softmax
	r.answer = func(b []byte, spill api.Spill, a *Answer) []byte {
		b = a.appendList(b, spill, "generative-scoring-", a.scoreElement)
		return append(a.Usage.Append(b), '}')
	}
	return r, nil
}

// labelScoresBody is SGLang's.
type labelScoresBody struct {
	labelled
	Temperature *float64        `json:"temperature" above:"0" about:"Another than 1 needs apply_softmax."`
	Logprobs    json.RawMessage `json:"return_token_logprobs" only:"false"`
	Hidden      json.RawMessage `json:"return_pooled_hidden_states" only:"false"`
	Extraction  json.RawMessage `json:"score_extraction_token" only:""`
}

// asksLabels tells SGLang's body of POST /score from vLLM's.
func asksLabels(body []byte) bool {
	var in struct {
		Query  json.RawMessage `json:"query"`
		Labels json.RawMessage `json:"label_token_ids"`
	}
	return json.Unmarshal(body, &in) == nil && (in.Query != nil || in.Labels != nil)
}

// decodeLabelScores decodes SGLang's body of POST /v1/score.
func decodeLabelScores(body []byte) (*Request, *api.Error) {
	var in labelScoresBody
	if err := api.Decode(body, &in); err != nil {
		return nil, err
	}
	r := in.newRequest(Labels)
	if err := in.fillRequest(r); err != nil {
		return nil, err
	}
	if t := in.Temperature; t != nil {
		if *t != 1 && !r.Softmax {
			return nil, api.Invalid("temperature", "temperature is %g; it must be 1 without apply_softmax", *t)
		}
		r.Temperature = *t
	}
	r.answer = func(b []byte, spill api.Spill, a *Answer) []byte {
		b = api.AppendElements(append(b, `{"object":"scoring","scores":`...), len(a.Results), spill, func(b []byte, i int) []byte { return appendScores(b, a.Results[i].Scores) })
		b = api.AppendString(append(b, `,"model":`...), a.Model)
		return append(a.Usage.Append(b), '}')
	}
	return r, nil
}
