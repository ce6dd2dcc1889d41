package detokenize

import (
	"unicode/utf8"

	"github.com/prefillonly/prefillonly/engine"
)

// Text is the text of generated tokens, in UTF-8. One goroutine uses it.
type Text struct {
	decoder
	bytes []byte
	chars int
	taken int // bytes that Take has handed out
}

// NewText begins the text that follows a prompt. With skipSpecial, special tokens have no text.
func NewText(tok Tokenizer, skipSpecial bool, prompt []engine.TokenID) Text {
	return Text{decoder: newDecoder(tok, skipSpecial, prompt)}
}

// Add adds a token. Its text may have to wait for the next.
func (t *Text) Add(id engine.TokenID) { t.appendString(t.push(id)) }

// End adds the text of last tokens that end inside a character.
func (t *Text) End() { t.appendString(t.flush()) }

func (t *Text) appendString(text string) {
	t.bytes = append(t.bytes, text...)
	t.chars += utf8.RuneCountInString(text)
}

// Len is the number of bytes, and Chars that of characters.
func (t *Text) Len() int   { return len(t.bytes) }
func (t *Text) Chars() int { return t.chars }

// Err is the tokenizer's first error; the text lacks what it failed on.
func (t *Text) Err() error { return t.err }

// Cut ends the text before the stop string that is complete first, or with include behind it. None counts that is
// complete within the first from bytes. It returns which it is; empty if there is none.
func (t *Text) Cut(stops []string, from int, include bool) string {
	at, which := findStop(t.bytes, from, stops)
	if at < 0 {
		return ""
	}
	if include {
		at += len(which)
	}
	t.bytes = t.bytes[:at]
	t.chars = utf8.RuneCount(t.bytes)
	return which
}

// Take returns what may go out now and has not: all of it when the text is done, and before that all but what may
// become one of stops.
func (t *Text) Take(stops []string, done bool) string {
	end := len(t.bytes)
	if !done {
		end -= heldBack(t.bytes, stops)
	}
	if end <= t.taken {
		return ""
	}
	out := string(t.bytes[t.taken:end])
	t.taken = end
	return out
}
