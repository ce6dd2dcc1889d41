package pooling

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/prefillonly/prefillonly/engine/api"
)

// decodeClassify decodes the body of POST /classify, vLLM's and SGLang's.
func decodeClassify(body []byte) (*Request, *api.Error) {
	var in struct {
		common
		chat
		Input      json.RawMessage `json:"input"`
		Activation *bool           `json:"use_activation"`
		OldName    *bool           `json:"activation"`
	}
	if err := api.Decode(body, &in); err != nil {
		return nil, err
	}
	r, err := in.request(Classify)
	if err != nil {
		return nil, err
	}
	r.Activate = raw(in.Activation, in.OldName)
	r.answer = func(b []byte, spill api.Spill, a *Answer) []byte {
		b = a.list(b, spill, "classify-", func(b []byte, i int) []byte {
			scores := a.Results[i].Scores
			b = strconv.AppendInt(append(b, `{"index":`...), int64(i), 10)
			b = api.AppendString(append(b, `,"label":`...), a.Classes[slices.Index(scores, slices.Max(scores))])
			b = appendScores(append(b, `,"probs":`...), scores)
			b = strconv.AppendInt(append(b, `,"num_classes":`...), int64(len(scores)), 10)
			return append(b, '}')
		})
		return append(a.Usage.Append(b), '}')
	}
	return r, r.inputs("input", in.Input, &in.chat, in.AddSpecial)
}

// tasks are vLLM's names of them.
var tasks = map[string]Task{"": ByModel, "embed": Embed, "token_embed": EmbedTokens, "classify": Classify, "token_classify": ClassifyToken}

// decodePooling decodes the body of POST /pooling, vLLM's.
func decodePooling(body []byte) (*Request, *api.Error) {
	var in struct {
		common
		chat
		encoding
		embedding
		Input json.RawMessage `json:"input"`
		Task  string          `json:"task"`
	}
	if err := api.Decode(body, &in); err != nil {
		return nil, err
	}
	task, ok := tasks[in.Task]
	if !ok {
		return nil, api.Invalid("task", "task is %.40q; it must be embed, token_embed, classify or token_classify", in.Task)
	}
	r, err := in.request(task)
	if err != nil {
		return nil, err
	}
	base64, err := in.base64()
	if err == nil {
		err = in.apply(r)
	}
	if err != nil {
		return nil, err
	}
	r.Activate = raw(in.Activation)
	r.answer = func(b []byte, spill api.Spill, a *Answer) []byte {
		b = a.list(b, spill, "pool-", func(b []byte, i int) []byte {
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
	return r, r.inputs("input", in.Input, &in.chat, in.AddSpecial)
}
