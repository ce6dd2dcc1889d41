package frontend

import (
	"context"
	"net/http"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/completions"
	"github.com/prefillonly/prefillonly/engine/api/pooling"
	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
)

// tokenizing is what a body of /tokenize asks: vLLM's, or TEI's.
type tokenizing struct {
	prompt *completions.TokenizeRequest
	texts  *pooling.TextsRequest
}

func (e *promptEndpoints) tokenize(x *exchange.Exchange, r *http.Request) {
	decode := func(body []byte) (t *tokenizing, err *api.Error) {
		t = &tokenizing{}
		if !pooling.TokenizesTexts(body) {
			t.prompt, err = completions.DecodeTokenize(body)
			return t, err
		}
		x.Words = pooling.TEI.Error
		t.texts, err = pooling.DecodeTokenize(body)
		return t, err
	}
	var whole *completions.Tokenized
	tokens, refused := exchange.Prepare(x, r, decode, func(t *tokenizing) (*[][]pooling.Token, *exchange.Refusal) {
		if t.texts != nil {
			return e.textsTokens(r.Context(), x, t.texts)
		}
		var refused *exchange.Refusal
		whole, refused = e.tokenized(r.Context(), x, t.prompt)
		return nil, refused
	})
	switch {
	case refused != nil:
		x.Refuse(refused)
	case whole != nil:
		x.WritePieces(whole)
	default:
		x.WriteJSON(http.StatusOK, tokens)
	}
}

func (e *promptEndpoints) tokenized(ctx context.Context, x *exchange.Exchange, request *completions.TokenizeRequest) (*completions.Tokenized, *exchange.Refusal) {
	m, text, refused := e.models.Reader(ctx, x, request.Model)
	if refused != nil {
		return nil, refused
	}
	field, prompt, addSpecial := "prompt", "", request.Prompt != nil
	if request.AddSpecialTokens != nil {
		addSpecial = *request.AddSpecialTokens
	}
	if request.Prompt != nil {
		prompt = *request.Prompt
	} else {
		var err error
		field = "messages"
		if prompt, err = text.Messages(request.Messages, &request.Templating); err != nil {
			return nil, exchange.RefusalOf(ctx, err)
		}
	}
	ids, err := text.Tokens(ctx, x.Owner.Salt(""), field, prompt, addSpecial)
	if err != nil {
		return nil, exchange.RefusalOf(ctx, err)
	}
	answer := &completions.Tokenized{Count: len(ids), Tokens: ids}
	if served := e.pool.State().Models[m.Name]; served != nil && served.Tokens != nil {
		answer.MaxModelLen = served.Tokens.MaxModelLen
	}
	if request.ReturnTokenStrs {
		answer.TokenStrs = api.Made(len(ids), func(i int) string { return string(text.TokenBytes(ids[i])) })
	}
	return answer, nil
}

// tokenizerInfo answers vLLM's /tokenizer_info, of the model that the query names.
func (e *promptEndpoints) tokenizerInfo(x *exchange.Exchange, r *http.Request) {
	_, text, refused := e.models.Reader(r.Context(), x, r.URL.Query().Get("model"))
	if refused != nil {
		x.Refuse(refused)
		return
	}
	x.WriteJSON(http.StatusOK, text.TokenizerInfo())
}

func (e *promptEndpoints) detokenize(x *exchange.Exchange, r *http.Request) {
	answer, refused := exchange.Prepare(x, r, completions.DecodeDetokenize, func(request *completions.DetokenizeRequest) (*completions.Detokenized, *exchange.Refusal) {
		return e.detokenized(r.Context(), x, request)
	})
	if refused != nil {
		x.Refuse(refused)
		return
	}
	x.WriteJSON(http.StatusOK, answer)
}

func (e *promptEndpoints) detokenized(ctx context.Context, x *exchange.Exchange, request *completions.DetokenizeRequest) (*completions.Detokenized, *exchange.Refusal) {
	_, text, refused := e.models.Reader(ctx, x, request.Model)
	if refused != nil {
		return nil, refused
	}
	vocab := text.VocabSize()
	for _, id := range request.Tokens {
		if int(id) >= vocab {
			return nil, exchange.Invalid(api.Invalid("tokens", "tokens has token id %d; the vocabulary has %d tokens (0 to %d)", id, vocab, vocab-1))
		}
	}
	prompt, err := text.Untokenize("tokens", request.Tokens, false)
	if err != nil {
		return nil, exchange.RefusalOf(ctx, err)
	}
	return &completions.Detokenized{Prompt: prompt}, nil
}
