// Package detokenize turns generated tokens into text as they come: it waits for the ends of characters, finds
// stop strings, holds back what may become one, and tells where in a text its tokens stand.
package detokenize

import (
	"strings"
	"unicode/utf8"

	"github.com/prefillonly/prefillonly/engine"
)

// Tokenizer turns tokens into text. It is safe for concurrent use.
type Tokenizer interface {
	Decode(ids []engine.TokenID, skipSpecial bool) (string, error)
	TokenBytes(id engine.TokenID) []byte // what the token adds to a text; may be part of a character
}

// contextTokens is how many prompt tokens the first generated ones are decoded with. Some
// tokenizers drop a space at the start of a text, so a token has no text of its own.
const contextTokens = 4

// maxHeld bounds the tokens that wait for the end of a character. A character has at most four
// bytes, so more of them are not the beginning of one.
const maxHeld = 16

// decoder turns tokens into text one by one. What a token adds is the text of a window that ends
// with it, less the text of the window without it; a window whose text ends inside a character
// waits for the next token. The window is short, so the work for a token does not grow.
type decoder struct {
	tok         Tokenizer
	skipSpecial bool
	ids         []engine.TokenID // context, and tokens since
	start       int              // of the window in ids
	read        int              // ids[:read] are out as text
	err         error            // the first of the tokenizer; what it fails on is left out
}

func newDecoder(tok Tokenizer, skipSpecial bool, prompt []engine.TokenID) decoder {
	d := decoder{tok: tok, skipSpecial: skipSpecial}
	tail := prompt[max(0, len(prompt)-contextTokens):]
	d.ids = append(make([]engine.TokenID, 0, len(tail)+4), tail...)
	d.read = len(tail)
	return d
}

// push returns the text that id completes.
func (d *decoder) push(id engine.TokenID) string {
	d.ids = append(d.ids, id)
	text := d.windowText(len(d.ids))
	if strings.HasSuffix(text, "\uFFFD") && len(d.ids)-d.read < maxHeld {
		return ""
	}
	return d.advance(text)
}

// flush returns the text of tokens that end inside a character.
func (d *decoder) flush() string {
	if d.read == len(d.ids) {
		return ""
	}
	return d.advance(d.windowText(len(d.ids)))
}

func (d *decoder) advance(text string) string {
	before := d.windowText(d.read)
	d.start, d.read = d.read, len(d.ids)
	return text[commonPrefix(before, text):]
}

// windowText is that of the window up to ids[end].
func (d *decoder) windowText(end int) string {
	text, err := d.tok.Decode(d.ids[d.start:end], d.skipSpecial)
	if d.err == nil {
		d.err = err
	}
	return text
}

// commonPrefix is the length of the longest common prefix of a and b that ends between characters
// of b. Mostly it is all of a; a prompt that ended inside a character is the exception.
func commonPrefix(a, b string) int {
	if strings.HasPrefix(b, a) {
		return len(a)
	}
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	for n > 0 && n < len(b) && !utf8.RuneStart(b[n]) {
		n--
	}
	return n
}
