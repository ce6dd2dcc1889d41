package tokenizer

import (
	"strings"

	"github.com/prefillonly/prefillonly/engine"
)

// maxHeld bounds the tokens that a Stream holds back; a character has at most four bytes, so more
// of them are not the beginning of one.
const maxHeld = 16

// Stream turns a growing list of ids into text piece by piece. The pieces joined are the Decode of
// the whole list, as long as no more than 16 ids in a row fail to end a character. One goroutine
// uses it at a time.
type Stream struct {
	tokenizer   *Tokenizer
	skipSpecial bool
	ids         []engine.TokenID
	context     int // ids[context:done] are decoded along, for the spaces between tokens
	done        int // ids[:done] have been returned
}

// NewStream begins a text.
func (t *Tokenizer) NewStream(skipSpecial bool) *Stream {
	return &Stream{tokenizer: t, skipSpecial: skipSpecial}
}

// Push adds an id and returns the text that is certain by now: empty while a character is
// incomplete.
func (s *Stream) Push(id engine.TokenID) string {
	s.ids = append(s.ids, id)
	return s.take(len(s.ids)-s.done > maxHeld)
}

// Flush ends the text and returns what was held back, with U+FFFD for an incomplete character.
func (s *Stream) Flush() string { return s.take(true) }

func (s *Stream) take(all bool) string {
	before := s.tokenizer.Decode(s.ids[s.context:s.done], s.skipSpecial)
	text := s.tokenizer.Decode(s.ids[s.context:], s.skipSpecial)
	if !all && (len(text) <= len(before) || strings.HasSuffix(text, "\uFFFD")) {
		return ""
	}
	piece := strings.TrimPrefix(text, before)
	s.ids = s.ids[s.context:]
	s.context, s.done = s.done-s.context, len(s.ids)
	if s.context == s.done {
		s.context = 0
	}
	return piece
}
