package tokenizer

import (
	"sync/atomic"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/text"
)

// The special tokens of NewBytes, after the 256 bytes.
const (
	bytesBOS engine.TokenID = 256 + iota
	bytesEOS
)

// bytesModel has a token for every byte.
type bytesModel struct{}

// NewBytes returns a tokenizer that needs no files and no cgo: every byte is the token of its own
// value, 256 begins a text and 257 ends it. It has no chat template.
func NewBytes() *Tokenizer {
	t := &Tokenizer{
		model:   bytesModel{},
		chat:    newChat(&files{}),
		leading: []engine.TokenID{bytesBOS},
		pair:    text.Pair{Before: []engine.TokenID{bytesBOS}, Typed: true},
		eos:     []engine.TokenID{bytesEOS},
		widest:  1,
	}
	for b := range 256 {
		t.tokens = append(t.tokens, token{text: string([]byte{byte(b)})})
	}
	t.tokens = append(t.tokens, token{text: "<|begin_of_text|>"}, token{text: "<|end_of_text|>"})
	return t
}

func (bytesModel) Encode(text string, addSpecial bool, _ *atomic.Int32) ([]engine.TokenID, error) {
	var ids []engine.TokenID
	if addSpecial {
		ids = append(ids, bytesBOS)
	}
	for _, b := range []byte(text) {
		ids = append(ids, engine.TokenID(b))
	}
	return ids, nil
}

func (bytesModel) Decode(ids []engine.TokenID, skipSpecial bool) (string, error) {
	var text []byte
	for _, id := range ids {
		switch {
		case id < 256:
			text = append(text, byte(id))
		case id == bytesBOS && !skipSpecial:
			text = append(text, "<|begin_of_text|>"...)
		case id == bytesEOS && !skipSpecial:
			text = append(text, "<|end_of_text|>"...)
		}
	}
	return decodeLossy(text), nil
}

func (bytesModel) Close() {}
