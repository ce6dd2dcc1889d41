package frontend

import (
	"net/http"
	"slices"

	"github.com/prefillonly/prefillonly/engine/api"
)

func (f *Frontend) tokenize(x *exchange, r *http.Request) {
	answer, refused := f.tokenized(x, r)
	if refused != nil {
		f.refuse(x, refused)
		return
	}
	f.writePieces(x, answer)
}

func (f *Frontend) tokenized(x *exchange, r *http.Request) (*api.Tokenized, *refusal) {
	b, refused := f.readBody(x, r)
	if refused != nil {
		return nil, refused
	}
	done, refused := f.turn(r.Context(), b)
	if refused != nil {
		return nil, refused
	}
	defer done()
	request, err := api.DecodeTokenize(b.bytes)
	f.release(b)
	if err != nil {
		return nil, invalid(err)
	}
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
		field = "messages"
		text, refused = f.renderMessages(request.Messages, &request.Templating)
		if refused != nil {
			return nil, refused
		}
	}
	ids, refused := f.encode(r.Context(), x.owner.Salt(""), field, text, addSpecial)
	if refused != nil {
		return nil, refused
	}
	answer := &api.Tokenized{Count: len(ids), MaxModelLen: f.jobs.state.Load().maxModelLen, Tokens: ids}
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
	answer, refused := f.detokenized(x, r)
	if refused != nil {
		f.refuse(x, refused)
		return
	}
	f.writeJSON(x, http.StatusOK, answer)
}

func (f *Frontend) detokenized(x *exchange, r *http.Request) (*api.Detokenized, *refusal) {
	b, refused := f.readBody(x, r)
	if refused != nil {
		return nil, refused
	}
	done, refused := f.turn(r.Context(), b)
	if refused != nil {
		return nil, refused
	}
	defer done()
	request, err := api.DecodeDetokenize(b.bytes)
	f.release(b)
	if err != nil {
		return nil, invalid(err)
	}
	if refused := f.checkModel(request.Model); refused != nil {
		return nil, refused
	}
	vocab := f.tok.VocabSize()
	for _, id := range request.Tokens {
		if int(id) >= vocab {
			return nil, invalid(api.Invalid("tokens", "tokens has token id %d; the vocabulary has %d tokens (0 to %d)", id, vocab, vocab-1))
		}
	}
	text, failed := f.tok.Decode(request.Tokens, false)
	if failed != nil {
		return nil, untokenizable("tokens", failed)
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
			N: c.N, MaxTokens: c.jobs[i*c.N].submit.MaxTokens,
			Temperature: c.Temperature, TopP: c.TopP, Seed: c.Seed,
		},
		Stream: c.Stream, Options: c.StreamOptions, CacheSalt: c.CacheSalt, Priority: c.Priority,
	}
}
