package frontend

import (
	"context"
	"net/http"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/completions"
	"github.com/prefillonly/prefillonly/engine/api/pooling"
	"github.com/prefillonly/prefillonly/engine/completion"
)

// tokenizing is what a body of /tokenize asks: vLLM's, or TEI's.
type tokenizing struct {
	prompt *completions.TokenizeRequest
	texts  *pooling.TextsRequest
}

func (f *Frontend) tokenize(x *exchange, r *http.Request) {
	decode := func(body []byte) (t *tokenizing, err *api.Error) {
		t = &tokenizing{}
		if !pooling.TokenizesTexts(body) {
			t.prompt, err = completions.DecodeTokenize(body)
			return t, err
		}
		x.errors = pooling.TEI.Error
		t.texts, err = pooling.DecodeTokenize(body)
		return t, err
	}
	var whole *completions.Tokenized
	tokens, refused := prepare(f, x, r, decode, func(t *tokenizing) (*[][]pooling.Token, *refusal) {
		if t.texts != nil {
			return f.textsTokens(r.Context(), x, t.texts)
		}
		var refused *refusal
		whole, refused = f.tokenized(r.Context(), x, t.prompt)
		return nil, refused
	})
	switch {
	case refused != nil:
		f.refuse(x, refused)
	case whole != nil:
		f.writePieces(x, whole)
	default:
		f.writeJSON(x, http.StatusOK, tokens)
	}
}

func (f *Frontend) tokenized(ctx context.Context, x *exchange, request *completions.TokenizeRequest) (*completions.Tokenized, *refusal) {
	m, text, refused := f.reader(ctx, x, request.Model)
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
			return nil, refusalOf(ctx, err)
		}
	}
	ids, err := text.Tokens(ctx, x.owner.Salt(""), field, prompt, addSpecial)
	if err != nil {
		return nil, refusalOf(ctx, err)
	}
	answer := &completions.Tokenized{Count: len(ids), Tokens: ids}
	if served := f.pool.State().Models[m.Name]; served != nil && served.Tokens != nil {
		answer.MaxModelLen = served.Tokens.MaxModelLen
	}
	if request.ReturnTokenStrs {
		answer.TokenStrs = api.Made(len(ids), func(i int) string { return string(text.TokenBytes(ids[i])) })
	}
	return answer, nil
}

// reader is the model that a request names, and what its texts are read with.
func (f *Frontend) reader(ctx context.Context, x *exchange, name string) (*Model, *Text, *refusal) {
	m, refused := f.model(x, name)
	if refused != nil {
		return nil, nil, refused
	}
	text, refused := f.text(ctx, x, m)
	return m, text, refused
}

// tokenizerInfo answers vLLM's /tokenizer_info, of the model that the query names.
func (f *Frontend) tokenizerInfo(x *exchange, r *http.Request) {
	_, text, refused := f.reader(r.Context(), x, r.URL.Query().Get("model"))
	if refused != nil {
		f.refuse(x, refused)
		return
	}
	f.writeJSON(x, http.StatusOK, text.TokenizerInfo())
}

func (f *Frontend) detokenize(x *exchange, r *http.Request) {
	answer, refused := prepare(f, x, r, completions.DecodeDetokenize, func(request *completions.DetokenizeRequest) (*completions.Detokenized, *refusal) {
		return f.detokenized(r.Context(), x, request)
	})
	if refused != nil {
		f.refuse(x, refused)
		return
	}
	f.writeJSON(x, http.StatusOK, answer)
}

func (f *Frontend) detokenized(ctx context.Context, x *exchange, request *completions.DetokenizeRequest) (*completions.Detokenized, *refusal) {
	_, tokenizer, refused := f.reader(ctx, x, request.Model)
	if refused != nil {
		return nil, refused
	}
	vocab := tokenizer.VocabSize()
	for _, id := range request.Tokens {
		if int(id) >= vocab {
			return nil, invalid(api.Invalid("tokens", "tokens has token id %d; the vocabulary has %d tokens (0 to %d)", id, vocab, vocab-1))
		}
	}
	text, err := tokenizer.Decode(request.Tokens, false)
	if err != nil {
		return nil, invalid(completion.Untokenizable("tokens", err))
	}
	return &completions.Detokenized{Prompt: text}, nil
}
