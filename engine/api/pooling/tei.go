package pooling

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/prefillonly/prefillonly/engine/api"
)

// teiCommon is what TEI's bodies have in common, and the model, which TEI has no field for, as it serves one.
type teiCommon struct {
	api.Adapters
	Model      string  `json:"model" is:"ModelName"`
	Truncate   *bool   `json:"truncate" default:"false"`
	Direction  string  `json:"truncation_direction" enum:"Left,Right,left,right"`
	PromptName *string `json:"prompt_name"`
}

func (c *teiCommon) newRequest(task Task) *Request {
	r := &Request{Model: c.Model, Task: task, Prompt: c.PromptName, AddSpecial: true}
	if c.Truncate != nil && *c.Truncate {
		r.Fit.Most = -1
	}
	r.Fit.Left = strings.EqualFold(c.Direction, "left")
	return r
}

type embedBody struct {
	teiCommon
	Inputs     json.RawMessage `json:"inputs" is:"Inputs" required:"true"`
	Normalize  *bool           `json:"normalize" default:"true"`
	Dimensions *int            `json:"dimensions" min:"1"`
}

// decodeEmbed decodes the body of POST /embed.
func decodeEmbed(body []byte) (*Request, *api.Error) {
	var in embedBody
	if err := api.Decode(body, &in); err != nil {
		return nil, err
	}
	r := in.newRequest(Embed)
	if in.Normalize == nil {
		in.Normalize = new(bool)
		*in.Normalize = true
	}
	(&embedding{Dimensions: in.Dimensions, Normalize: in.Normalize, PromptName: in.PromptName}).fillRequest(r)
	r.answer = func(b []byte, spill api.Spill, a *Answer) []byte {
		return api.AppendElements(b, len(a.Results), spill, func(b []byte, i int) []byte { return appendFloats(b, a.Results[i].Vector) })
	}
	return r, r.readRequestInputs("inputs", in.Inputs, nil, nil)
}

type embedAllBody struct {
	teiCommon
	Inputs json.RawMessage `json:"inputs" is:"Inputs" required:"true"`
}

// decodeEmbedAll decodes the body of POST /embed_all.
func decodeEmbedAll(body []byte) (*Request, *api.Error) {
	var in embedAllBody
	if err := api.Decode(body, &in); err != nil {
		return nil, err
	}
	r := in.newRequest(EmbedTokens)
	r.answer = func(b []byte, spill api.Spill, a *Answer) []byte {
		return api.AppendElements(b, len(a.Results), spill, func(b []byte, i int) []byte { return appendVector(b, &a.Results[i], false, true) })
	}
	return r, r.readRequestInputs("inputs", in.Inputs, nil, nil)
}

type predictBody struct {
	teiCommon
	Inputs    json.RawMessage `json:"inputs" is:"Sequences" required:"true"`
	RawScores bool            `json:"raw_scores" default:"false"`
}

// decodePredict decodes the body of POST /predict. Its inputs are one text, a pair of texts in a list, or a list of lists of one
// text or of a pair.
func decodePredict(body []byte) (*Request, *api.Error) {
	var in predictBody
	if err := api.Decode(body, &in); err != nil {
		return nil, err
	}
	r := in.newRequest(Classify)
	r.Field = "inputs"
	if r.Activate = nil; in.RawScores {
		r.Activate = new(bool)
	}
	many, err := r.readSequences(in.Inputs)
	if err != nil {
		return nil, err
	}
	r.answer = func(b []byte, spill api.Spill, a *Answer) []byte {
		if !many {
			return a.appendClasses(b, 0)
		}
		return api.AppendElements(b, len(a.Results), spill, a.appendClasses)
	}
	return r, nil
}

// readSequences reads the inputs of /predict, and says whether they are a list of inputs.
func (r *Request) readSequences(raw json.RawMessage) (many bool, err *api.Error) {
	if api.Neutral(raw, "") {
		return false, newEmptyError("inputs", "inputs is missing; give a text, a pair of texts, or a list of lists of them")
	}
	var list [][]string
	if json.Unmarshal(raw, &list) == nil {
		many = true
	} else {
		one, err := readStrings("inputs", raw)
		if err != nil {
			return false, err
		}
		list = [][]string{one}
	}
	if len(list) == 0 {
		return false, newEmptyError("inputs", "inputs is an empty list; give at least one")
	}
	for i, texts := range list {
		switch len(texts) {
		case 1:
			r.Inputs = append(r.Inputs, Input{Text: texts[0]})
		case 2:
			r.Inputs = append(r.Inputs, Input{Text: texts[0], Pair: &texts[1]})
		default:
			return many, api.Invalid("inputs", "input %d of inputs has %d texts; it must have one, or a pair", i, len(texts))
		}
	}
	return many, tooMany("inputs", len(list))
}

// appendClasses appends the classes of an input, the likeliest first.
func (a *Answer) appendClasses(b []byte, i int) []byte {
	scores := a.Results[i].Scores
	best := make([]int, len(scores))
	for k := range best {
		best[k] = k
	}
	slices.SortStableFunc(best, func(x, y int) int {
		switch {
		case scores[x] > scores[y]:
			return -1
		case scores[x] < scores[y]:
			return 1
		}
		return 0
	})
	return api.AppendElements(b, len(best), nil, func(b []byte, k int) []byte {
		b = appendScore(append(b, `{"score":`...), scores[best[k]])
		return append(api.AppendString(append(b, `,"label":`...), a.Classes[best[k]]), '}')
	})
}

type similarityBody struct {
	api.Adapters
	Model  string `json:"model" is:"ModelName"`
	Inputs struct {
		Source    *string         `json:"source_sentence" required:"true"`
		Sentences json.RawMessage `json:"sentences" is:"Strings" required:"true"`
	} `json:"inputs" required:"true"`
	Parameters teiCommon `json:"parameters"`
}

// decodeSimilarity decodes the body of POST /similarity.
func decodeSimilarity(body []byte) (*Request, *api.Error) {
	var in similarityBody
	if err := api.Decode(body, &in); err != nil {
		return nil, err
	}
	in.Parameters.Model = in.Model
	r := in.Parameters.newRequest(Similarity)
	r.QueryField, r.Field = "inputs.source_sentence", "inputs.sentences"
	if in.Inputs.Source == nil {
		return nil, newEmptyError(r.QueryField, "%s is missing; give a string", r.QueryField)
	}
	r.Queries = []string{*in.Inputs.Source}
	var err *api.Error
	if r.Documents, err = readStrings(r.Field, in.Inputs.Sentences); err != nil {
		return nil, err
	}
	r.answer = func(b []byte, spill api.Spill, a *Answer) []byte {
		return api.AppendElements(b, len(a.Results), spill, func(b []byte, i int) []byte { return appendScore(b, a.Results[i].Scores[0]) })
	}
	return r, nil
}

// rerankDialect tells TEI's body of /rerank from others by its texts.
func rerankDialect(body []byte) Dialect {
	var in struct {
		Texts json.RawMessage `json:"texts"`
	}
	if json.Unmarshal(body, &in) == nil && in.Texts != nil {
		return TEI
	}
	return Jina
}

func decodeEitherRerank(body []byte) (*Request, *api.Error) {
	if rerankDialect(body) == TEI {
		return decodeTEIRerank(body)
	}
	return decodeRerank(body)
}

type teiRerankBody struct {
	teiCommon
	Query      *string         `json:"query" required:"true"`
	Texts      json.RawMessage `json:"texts" is:"Strings" required:"true"`
	RawScores  bool            `json:"raw_scores" default:"false"`
	ReturnText bool            `json:"return_text" default:"false"`
}

// decodeTEIRerank decodes TEI's body of POST /rerank.
func decodeTEIRerank(body []byte) (*Request, *api.Error) {
	var in teiRerankBody
	if err := api.Decode(body, &in); err != nil {
		return nil, err
	}
	r := in.newRequest(Score)
	if in.Query == nil {
		return nil, newEmptyError("query", "query is missing; give a string")
	}
	activate := !in.RawScores
	r.QueryField, r.Field, r.Queries, r.Activate = "query", "texts", []string{*in.Query}, &activate
	var err *api.Error
	if r.Documents, err = readStrings("texts", in.Texts); err != nil {
		return nil, err
	}
	r.answer = func(b []byte, spill api.Spill, a *Answer) []byte {
		best := a.resultOrder(0)
		return api.AppendElements(b, len(best), spill, func(b []byte, k int) []byte {
			i := best[k]
			b = strconv.AppendInt(append(b, `{"index":`...), int64(i), 10)
			if in.ReturnText {
				b = api.AppendString(append(b, `,"text":`...), r.Documents[i])
			}
			b = appendScore(append(b, `,"score":`...), a.Results[i].Scores[0])
			return append(b, '}')
		})
	}
	return r, nil
}
