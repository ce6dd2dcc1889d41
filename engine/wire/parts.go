package wire

import (
	"math"

	"github.com/prefillonly/prefillonly/engine"
)

// askBody, answerBody and errorBody give the fields of package engine's structs, which know nothing
// of the wire.
type (
	askBody    engine.Ask
	answerBody engine.Answer
	errorBody  engine.Error
)

func (m *askBody) encode(w *writer) {
	w.int("top", int64(m.Top))
	w.words("labels", m.Labels)
	w.words("allowed", m.Allowed)
	w.biases("bias", m.Bias)
	w.bans("bans", m.Bans)
	w.float32("temperature", m.Temperature)
	w.float32("top_p", m.TopP)
	w.int("top_k", int64(m.TopK))
	w.float32("min_p", m.MinP)
	w.uint("seed", m.Seed)
	w.bool("prompt", m.PromptLogprobs)
	w.int("prompt_top", int64(m.PromptTop))
}

func (m *askBody) decode(r *reader, key []byte) bool {
	switch string(key) {
	case "top":
		m.Top = r.count()
	case "labels":
		m.Labels = r.words()
	case "allowed":
		m.Allowed = r.words()
	case "bias":
		m.Bias = r.biases()
	case "bans":
		m.Bans = r.bans()
	case "temperature":
		m.Temperature = r.float32()
	case "top_p":
		m.TopP = r.float32()
	case "top_k":
		m.TopK = r.count()
	case "min_p":
		m.MinP = r.float32()
	case "seed":
		m.Seed = r.uint()
	case "prompt":
		m.PromptLogprobs = r.bool()
	case "prompt_top":
		m.PromptTop = r.count()
	default:
		return false
	}
	return true
}

func (m *answerBody) encode(w *writer) {
	w.uint("token", uint64(m.Token))
	w.float32("logprob", m.Logprob)
	w.logprobs("top", m.Top)
	w.logprobs("labels", m.Labels)
}

func (m *answerBody) decode(r *reader, key []byte) bool {
	switch string(key) {
	case "token":
		m.Token = engine.TokenID(r.small(math.MaxUint32))
	case "logprob":
		m.Logprob = r.float32()
	case "top":
		m.Top = r.logprobs()
	case "labels":
		m.Labels = r.logprobs()
	default:
		return false
	}
	return true
}

func (m *errorBody) encode(w *writer) {
	w.uint("code", uint64(m.Code))
	w.string("message", m.Message)
	w.duration("retry_after", m.RetryAfter)
}

func (m *errorBody) decode(r *reader, key []byte) bool {
	switch string(key) {
	case "code":
		m.Code = engine.Code(r.small(math.MaxUint8))
	case "message":
		m.Message = r.string()
	case "retry_after":
		m.RetryAfter = r.duration()
	default:
		return false
	}
	return true
}
