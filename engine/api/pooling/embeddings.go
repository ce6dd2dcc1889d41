package pooling

import (
	"encoding/json"

	"github.com/prefillonly/prefillonly/engine/api"
)

// encoding is how the numbers of a vector are written.
type encoding struct {
	Format     string          `json:"encoding_format" enum:"float,base64"`
	Type       json.RawMessage `json:"embed_dtype" only:"\"float32\""`
	Endianness json.RawMessage `json:"endianness" only:"\"native\"|\"little\""`
}

// embedding is what changes the vectors of a request.
type embedding struct {
	Dimensions *int    `json:"dimensions" min:"1"`
	Normalize  *bool   `json:"normalize"`
	Activation *bool   `json:"use_activation"` // vLLM's newer name of normalize
	PromptName *string `json:"prompt_name"`    // TEI's
}

func (e *embedding) fillRequest(r *Request) {
	if e.Dimensions != nil {
		r.Dimensions = *e.Dimensions
	}
	r.Prompt, r.Normalize = e.PromptName, e.Normalize
	if r.Normalize == nil {
		r.Normalize = e.Activation
	}
}

// embeddingsBody is OpenAI's, with vLLM's fields.
type embeddingsBody struct {
	common
	chat
	encoding
	embedding
	Input        json.RawMessage `json:"input" is:"Inputs" about:"Or messages in place of it."`
	LateChunking json.RawMessage `json:"late_chunking" only:"false"` // Jina's, whose task is passed over: its clients send one always
}

// decodeEmbeddings decodes the body of POST /v1/embeddings.
func decodeEmbeddings(body []byte) (*Request, *api.Error) {
	var in embeddingsBody
	if err := api.Decode(body, &in); err != nil {
		return nil, err
	}
	r, base64 := in.newRequest(Embed), in.Format == "base64"
	in.fillRequest(r)
	r.answer = func(b []byte, spill api.Spill, a *Answer) []byte {
		b = a.appendList(b, spill, "embd-", func(b []byte, i int) []byte {
			b = appendElement(b, i, "embedding")
			b = appendVector(append(b, `,"embedding":`...), &a.Results[i], base64, false)
			return append(b, '}')
		})
		return append(a.Usage.Append(b), '}')
	}
	return r, r.readRequestInputs("input", in.Input, &in.chat, in.AddSpecial)
}
