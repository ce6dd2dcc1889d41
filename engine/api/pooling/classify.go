package pooling

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/prefillonly/prefillonly/engine/api"
)

// classifyBody is vLLM's and SGLang's.
type classifyBody struct {
	common
	chat
	Input      json.RawMessage `json:"input" is:"Inputs" about:"Or messages in place of it."`
	Activation *bool           `json:"use_activation"`
	OldName    *bool           `json:"activation"`
}

// decodeClassify decodes the body of POST /classify, vLLM's and SGLang's.
func decodeClassify(body []byte) (*Request, *api.Error) {
	var in classifyBody
	if err := api.Decode(body, &in); err != nil {
		return nil, err
	}
	r := in.newRequest(Classify)
	r.Activate = rawActivation(in.Activation, in.OldName)
	r.answer = func(b []byte, spill api.Spill, a *Answer) []byte {
		b = a.appendList(b, spill, "classify-", func(b []byte, i int) []byte {
			scores := a.Results[i].Scores
			b = strconv.AppendInt(append(b, `{"index":`...), int64(i), 10)
			b = api.AppendString(append(b, `,"label":`...), a.Classes[slices.Index(scores, slices.Max(scores))])
			b = appendScores(append(b, `,"probs":`...), scores)
			b = strconv.AppendInt(append(b, `,"num_classes":`...), int64(len(scores)), 10)
			return append(b, '}')
		})
		return append(a.Usage.Append(b), '}')
	}
	return r, r.readRequestInputs("input", in.Input, &in.chat, in.AddSpecial)
}

// tasks are vLLM's names of them.
var tasks = map[string]Task{"": ByModel, "embed": Embed, "token_embed": EmbedTokens, "classify": Classify, "token_classify": ClassifyToken}

// poolingBody is vLLM's.
type poolingBody struct {
	common
	chat
	encoding
	embedding
	Input json.RawMessage `json:"input" is:"Inputs" about:"Or messages in place of it."`
	Task  string          `json:"task" enum:"embed,token_embed,classify,token_classify"`
}

// decodePooling decodes the body of POST /pooling, vLLM's.
func decodePooling(body []byte) (*Request, *api.Error) {
	var in poolingBody
	if err := api.Decode(body, &in); err != nil {
		return nil, err
	}
	r, base64 := in.newRequest(tasks[in.Task]), in.Format == "base64"
	in.fillRequest(r)
	r.Activate = rawActivation(in.Activation)
	r.answer = func(b []byte, spill api.Spill, a *Answer) []byte {
		b = a.appendList(b, spill, "pool-", func(b []byte, i int) []byte {
			result := a.Results[i]
			for _, x := range result.Scores {
				result.Vector = append(result.Vector, float32(x))
			}
			rows := r.Task == EmbedTokens || r.Task == ClassifyToken
			b = appendVector(append(appendElement(b, i, "pooling"), `,"data":`...), &result, base64, rows)
			return append(b, '}')
		})
		return append(a.Usage.Append(b), '}')
	}
	return r, r.readRequestInputs("input", in.Input, &in.chat, in.AddSpecial)
}
