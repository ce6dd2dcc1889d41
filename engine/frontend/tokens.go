package frontend

import (
	"context"
	"net/http"
	"slices"

	"github.com/prefillonly/prefillonly/engine/api"
)

func (f *Frontend) tokenize(x *exchange, r *http.Request) {
	answer, refused := prepare(f, x, r, api.DecodeTokenize, func(request *api.TokenizeRequest) (*api.Tokenized, *refusal) {
		return f.tokenized(r.Context(), x.owner.Salt(""), request)
	})
	if refused != nil {
		f.refuse(x, refused)
		return
	}
	f.writePieces(x, answer)
}

func (f *Frontend) tokenized(ctx context.Context, salt string, request *api.TokenizeRequest) (*api.Tokenized, *refusal) {
	if refused := f.checkModel(request.Model); refused != nil {
		return nil, refused
	}
	field, text, addSpecial := "prompt", "", request.Prompt != nil
	if request.AddSpecialTokens != nil {
		addSpecial = *request.AddSpecialTokens
	}
	if request.Prompt != nil {
		text = *request.Prompt
	} else {
		var refused *refusal
		field = "messages"
		text, refused = f.renderMessages(request.Messages, &request.Templating)
		if refused != nil {
			return nil, refused
		}
	}
	ids, refused := f.encode(ctx, salt, field, text, addSpecial)
	if refused != nil {
		return nil, refused
	}
	answer := &api.Tokenized{Count: len(ids), MaxModelLen: f.pool.State().MaxModelLen, Tokens: ids}
	if request.ReturnTokenStrs {
		answer.TokenStrs = api.Made(len(ids), func(i int) string { return string(f.tok.TokenBytes(ids[i])) })
	}
	return answer, nil
}

// tokenizerInfo answers vLLM's /tokenizer_info.
func (f *Frontend) tokenizerInfo(x *exchange, _ *http.Request) {
	f.writeJSON(x, http.StatusOK, f.chat.TokenizerInfo())
}

// checkModel allows the empty name, which means the only model there is.
func (f *Frontend) checkModel(name string) *refusal {
	if name != "" && !slices.Contains(f.cfg.Models, name) {
		return unknownModel(name, f.cfg.Models)
	}
	return nil
}

func (f *Frontend) detokenize(x *exchange, r *http.Request) {
	answer, refused := prepare(f, x, r, api.DecodeDetokenize, f.detokenized)
	if refused != nil {
		f.refuse(x, refused)
		return
	}
	f.writeJSON(x, http.StatusOK, answer)
}

func (f *Frontend) detokenized(request *api.DetokenizeRequest) (*api.Detokenized, *refusal) {
	if refused := f.checkModel(request.Model); refused != nil {
		return nil, refused
	}
	vocab := f.tok.VocabSize()
	for _, id := range request.Tokens {
		if int(id) >= vocab {
			return nil, invalid(api.Invalid("tokens", "tokens has token id %d; the vocabulary has %d tokens (0 to %d)", id, vocab, vocab-1))
		}
	}
	text, err := f.tok.Decode(request.Tokens, false)
	if err != nil {
		return nil, untokenizable("tokens", err)
	}
	return &api.Detokenized{Prompt: text}, nil
}

// renderCompletions answers with the token ids of each prompt, for routers that hash them.
func (f *Frontend) renderCompletions(x *exchange, r *http.Request) {
	c, refused := f.prepareCompletion(x, r)
	if refused == nil {
		refused = f.admitOnly(c, r)
	}
	if refused != nil {
		f.refuse(x, refused)
		return
	}
	list := make([]api.Rendered, len(c.prompts))
	for i := range c.prompts {
		list[i] = c.rendered(i)
	}
	f.writeJSON(x, http.StatusOK, list)
}

func (f *Frontend) renderChat(x *exchange, r *http.Request) {
	c, refused := f.prepareChat(x, r)
	if refused == nil {
		refused = f.admitOnly(c, r)
	}
	if refused != nil {
		f.refuse(x, refused)
		return
	}
	f.writeJSON(x, http.StatusOK, c.rendered(0))
}

// admitOnly does to c all that comes before its jobs are submitted.
func (f *Frontend) admitOnly(c *call, r *http.Request) *refusal {
	limits, refused := f.limits(r.Context())
	if refused != nil {
		return refused
	}
	return c.admit(r, limits)
}

func (c *call) rendered(i int) api.Rendered {
	return api.Rendered{
		RequestID: c.id, Model: c.model, TokenIDs: c.prompts[i].ids,
		Sampling: api.RenderedSampling{
			N: c.N, MaxTokens: c.prompts[i].maxTokens,
			Temperature: c.Temperature, TopP: c.TopP, Seed: c.Seed,
		},
		Stream: c.Stream, Options: c.StreamOptions, CacheSalt: c.CacheSalt, Priority: c.Priority,
	}
}
