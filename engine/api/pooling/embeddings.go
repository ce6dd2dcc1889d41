package pooling

import (
	"encoding/json"

	"github.com/prefillonly/prefillonly/engine/api"
)

// encoding is how the numbers of a vector are written.
type encoding struct {
	Format     string          `json:"encoding_format"`
	Type       json.RawMessage `json:"embed_dtype"`
	Endianness json.RawMessage `json:"endianness"`
}

// base64 says whether vectors are written as base64 of little-endian FP32.
func (e *encoding) base64() (bool, *api.Error) {
	switch e.Format {
	case "", "float", "base64":
	default:
		return false, api.Invalid("encoding_format", "encoding_format is %.40q; it must be \"float\" or \"base64\"", e.Format)
	}
	return e.Format == "base64", checkUnsupported(field{"embed_dtype", e.Type, `"float32"`}, field{"endianness", e.Endianness, "\"native\"\n\"little\""})
}

// embedding is what changes the vectors of a request.
type embedding struct {
	Dimensions *int    `json:"dimensions"`
	Normalize  *bool   `json:"normalize"`
	Activation *bool   `json:"use_activation"` // vLLM's newer name of normalize
	PromptName *string `json:"prompt_name"`    // TEI's
}

func (e *embedding) apply(r *Request) *api.Error {
	if e.Dimensions != nil {
		if *e.Dimensions < 1 {
			return api.Invalid("dimensions", "dimensions is %d; it must be 1 or more", *e.Dimensions)
		}
		r.Dimensions = *e.Dimensions
	}
	r.Prompt, r.Normalize = e.PromptName, e.Normalize
	if r.Normalize == nil {
		r.Normalize = e.Activation
	}
	return nil
}

// decodeEmbeddings decodes the body of POST /v1/embeddings, OpenAI's with vLLM's fields.
func decodeEmbeddings(body []byte) (*Request, *api.Error) {
	var in struct {
		common
		chat
		encoding
		embedding
		Input json.RawMessage `json:"input"`
	}
	if err := api.Decode(body, &in); err != nil {
		return nil, err
	}
	r, err := in.request(Embed)
	if err != nil {
		return nil, err
	}
	base64, err := in.base64()
	if err != nil {
		return nil, err
	}
	if err := in.apply(r); err != nil {
		return nil, err
	}
	r.answer = func(b []byte, spill api.Spill, a *Answer) []byte {
		b = a.list(b, spill, "embd-", func(b []byte, i int) []byte {
			b = appendElement(b, i, "embedding")
			b = appendVector(append(b, `,"embedding":`...), &a.Results[i], base64, false)
			return append(b, '}')
		})
		return append(a.Usage.Append(b), '}')
	}
	return r, r.inputs("input", in.Input, &in.chat, in.AddSpecial)
}
