package tokenizer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/grammar"
	"github.com/prefillonly/prefillonly/engine/tokenizer/native"
)

// grammars is what the constraints of a tokenizer share, made at the first one.
type grammars struct {
	once   sync.Once
	shared *native.Grammars // set once
	err    error            // set once
}

// MaxGrammar is the most bytes of a schema, a regular expression or a grammar.
const MaxGrammar = 256 << 10

// Grammar compiles the form that a text is to have, or takes it from those that were: the texts of one form share what was
// found of it. Its error is an *engine.Error where all forms take too much of the process, ctx's when ctx ends, and else says
// what is wrong with text. It is closed before t is.
func (t *Tokenizer) Grammar(ctx context.Context, kind grammar.Kind, text string) (grammar.Constraint, error) {
	if len(text) > MaxGrammar {
		return nil, fmt.Errorf("grammar has %d bytes, want at most %d", len(text), MaxGrammar)
	}
	t.grammars.once.Do(func() { t.grammars.shared, t.grammars.err = t.openGrammars() })
	if t.grammars.err != nil {
		return nil, t.grammars.err
	}
	return compiledForms.open(ctx, t.grammars.shared, kind, text)
}

func (t *Tokenizer) openGrammars() (*native.Grammars, error) {
	m, ok := t.model.(*native.Tokenizer)
	if !ok {
		return nil, errors.New("this tokenizer does not support grammars")
	}
	return m.Grammars(t.tokenSpellings())
}

// closeGrammars frees what the constraints have shared.
func (t *Tokenizer) closeGrammars() {
	if t.grammars.shared != nil {
		compiledForms.forget(t.grammars.shared)
		t.grammars.shared.Close()
	}
}

// tokenSpellings are the bytes of each token that may be part of a text: none of those that end one, nor of other special ones.
func (t *Tokenizer) tokenSpellings() [][]byte {
	all := make([][]byte, len(t.tokens))
	for id, token := range t.tokens {
		if !token.special && !slices.Contains(t.eos, engine.TokenID(id)) {
			all[id] = token.decodedBytes()
		}
	}
	return all
}
