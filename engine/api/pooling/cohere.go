package pooling

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"github.com/prefillonly/prefillonly/engine/api"
)

// inputTypes are what Cohere's inputs are for, with the names that checkpoints have for prompts of that, the likeliest first.
var inputTypes = map[string][]string{
	"search_query":    {"search_query", "query"},
	"search_document": {"search_document", "document", "passage", "corpus"},
	"classification":  {"classification"},
	"clustering":      {"clustering"},
}

// numberType is how the numbers of a vector are written.
type numberType struct {
	name   string
	append func(b []byte, v []float32) []byte
}

// numberTypes are Cohere's.
var numberTypes = []numberType{
	{"float", appendFloats},
	{"int8", func(b []byte, v []float32) []byte { return appendIntegers(b, quantizeSteps(v), 0) }},
	{"uint8", func(b []byte, v []float32) []byte { return appendIntegers(b, quantizeSteps(v), 128) }},
	{"binary", func(b []byte, v []float32) []byte { return appendIntegers(b, signBits(v), -128) }},
	{"ubinary", func(b []byte, v []float32) []byte { return appendIntegers(b, signBits(v), 0) }},
	{"base64", appendBase64},
}

// quantizeSteps are the numbers of v, of the length 1, in steps of 1/127.
func quantizeSteps(v []float32) []int {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	scale := 127 / math.Sqrt(max(sum, math.SmallestNonzeroFloat32))
	all := make([]int, len(v))
	for i, x := range v {
		all[i] = int(math.RoundToEven(float64(x) * scale))
	}
	return all
}

// signBits are bits, eight a number, the first the highest: which numbers of v are above 0.
func signBits(v []float32) []int {
	packed := make([]int, (len(v)+7)/8)
	for i, x := range v {
		if x > 0 {
			packed[i/8] |= 1 << (7 - i%8)
		}
	}
	return packed
}

func appendIntegers(b []byte, v []int, offset int) []byte {
	b = append(b, '[')
	for i, n := range v {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(n+offset), 10)
	}
	return append(b, ']')
}

// cohereEmbed is the body of Cohere's POST /v1/embed and /v2/embed.
type cohereEmbed struct {
	common
	Texts     json.RawMessage `json:"texts" is:"Texts" about:"Or inputs in place of it."`
	Inputs    json.RawMessage `json:"inputs" is:"Texts"`
	Images    json.RawMessage `json:"images" only:"[]"`
	InputType string          `json:"input_type" enum:"search_query,search_document,classification,clustering"`
	MaxTokens int             `json:"max_tokens" default:"0" min:"0" about:"0: all. More than 0 needs truncate START or END."`
	Dimension int             `json:"output_dimension" default:"0" min:"0" says:"1 or more, or 0 for all"`
	Types     []string        `json:"embedding_types" enum:"float,int8,uint8,binary,ubinary,base64"`
	Cut       string          `json:"truncate" enum:"NONE,START,END"`
}

// fillRequest fills in what is not the same in other APIs.
func (c *cohereEmbed) fillRequest(r *Request) *api.Error {
	r.PromptAmong = inputTypes[c.InputType]
	if c.Cut == "END" || c.Cut == "START" {
		r.Fit.Most, r.Fit.Left = -1, c.Cut == "START"
	}
	r.Dimensions = c.Dimension
	if c.MaxTokens == 0 {
		return nil
	}
	if c.Cut == "NONE" {
		return api.Invalid("max_tokens", "max_tokens is %d; it needs truncate \"START\" or \"END\"", c.MaxTokens)
	}
	r.Fit.Most = c.MaxTokens
	return nil
}

// parseTexts reads the texts in either form.
func (c *cohereEmbed) parseTexts(r *Request) (list []string, err *api.Error) {
	r.Field = "texts"
	raw := c.Texts
	switch with := !api.Neutral(c.Inputs, "[]"); {
	case with && !api.Neutral(c.Texts, "[]"):
		return nil, api.Invalid("inputs", "give texts or inputs, not both")
	case with:
		r.Field, raw = "inputs", c.Inputs
	case api.Neutral(c.Texts, ""):
		return nil, newEmptyError("texts", "texts is missing; give a list of strings")
	}
	if list, err = readTexts(r.Field, raw); err == nil {
		for _, text := range list {
			r.Inputs = append(r.Inputs, Input{Text: text})
		}
	}
	return list, err
}

// decodeCohereEmbed decodes the body of a version of Cohere's /embed. The first one answers a bare list where no types are asked for.
func decodeCohereEmbed(version string) func(body []byte) (*Request, *api.Error) {
	return func(body []byte) (*Request, *api.Error) {
		var in cohereEmbed
		if err := api.Decode(body, &in); err != nil {
			return nil, err
		}
		r := in.newRequest(Embed)
		if err := in.fillRequest(r); err != nil {
			return nil, err
		}
		texts, err := in.parseTexts(r)
		if err != nil {
			return nil, err
		}
		bare := version == "1" && len(in.Types) == 0
		if len(in.Types) == 0 {
			in.Types = []string{"float"}
		}
		r.answer = func(b []byte, spill api.Spill, a *Answer) []byte {
			b = api.AppendString(append(b, `{"id":`...), a.ID)
			b = a.cohereVectors(b, spill, in.Types, bare)
			b = api.AppendElements(append(b, `,"texts":`...), len(texts), spill, func(b []byte, i int) []byte { return api.AppendString(b, texts[i]) })
			b = append(b, `,"meta":{"api_version":{"version":"`+version+`"},"billed_units":{"input_tokens":`...)
			return append(strconv.AppendInt(b, int64(a.Usage.PromptTokens), 10), "}}}"...)
		}
		return r, nil
	}
}

// cohereVectors appends the vectors in each of these types or, bare, in the first one alone.
func (a *Answer) cohereVectors(b []byte, spill api.Spill, types []string, bare bool) []byte {
	list := func(b []byte, form func([]byte, []float32) []byte) []byte {
		return api.AppendElements(b, len(a.Results), spill, func(b []byte, i int) []byte { return form(b, a.Results[i].Vector) })
	}
	if bare {
		return list(append(b, `,"response_type":"embeddings_floats","embeddings":`...), appendFloats)
	}
	b = append(b, `,"response_type":"embeddings_by_type","embeddings":{`...)
	first := true
	for _, t := range numberTypes {
		if !slices.Contains(types, t.name) {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = list(append(b, `"`+t.name+`":`...), t.append)
	}
	return append(b, '}')
}
