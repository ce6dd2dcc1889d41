package detokenize

import (
	"strings"
	"unicode/utf8"

	"github.com/prefillonly/prefillonly/engine"
)

// Place moves along a text token by token.
type Place struct {
	tok   Tokenizer
	rest  string // from the place on
	chars int    // characters that begin before it
	moved bool
}

// NewPlace stands at the beginning of a text.
func NewPlace(tok Tokenizer, text string) Place { return Place{tok: tok, rest: text} }

// Offset is the index of the character at the place, or around it.
func (p *Place) Offset() int {
	if p.rest != "" && !utf8.RuneStart(p.rest[0]) {
		return p.chars - 1
	}
	return p.chars
}

// Pass moves beyond a token. One that does not stand at the place takes no room if it is special, as a
// BOS that the tokenizer has put before a text, and else as much as its own bytes: the tokenizer has
// read the text in a normal form.
func (p *Place) Pass(id engine.TokenID) {
	token := p.tok.TokenBytes(id)
	n := len(token)
	switch {
	case strings.HasPrefix(p.rest, string(token)):
	case !p.moved && n > 0 && token[0] == ' ' && strings.HasPrefix(p.rest, string(token[1:])):
		n-- // some tokenizers put a space before a text
	case p.isSpecialToken(id):
		n = 0
	default:
		n = min(n, len(p.rest))
	}
	p.moved = p.moved || n > 0
	for i := range n {
		if utf8.RuneStart(p.rest[i]) {
			p.chars++
		}
	}
	p.rest = p.rest[n:]
}

// isSpecialToken says whether texts leave the token out.
func (p *Place) isSpecialToken(id engine.TokenID) bool {
	text, err := p.tok.Decode([]engine.TokenID{id}, true)
	return err == nil && text == ""
}
