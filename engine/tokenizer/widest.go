package tokenizer

import (
	"fmt"
	"strings"
)

const (
	// looseWidth is BytesPerToken of a tokenizer that can make one token of a text of any length.
	looseWidth = 1024
	// nfcShrinks is how many times shorter NFC makes a text at most: three jamo of Hangul, of three
	// bytes each, become one syllable of three bytes.
	nfcShrinks = 3
)

// BytesPerToken is the most bytes of text that one token can stand for: a text of more than n times
// as many does not fit into n tokens. Some tokenizers (WordPiece, those that know no bytes or drop
// spaces) can make one token of any text; for them it is 1024, which no natural text reaches.
func (t *Tokenizer) BytesPerToken() int { return t.widest }

func (t *Tokenizer) findWidest(p *parts) int {
	if t.chunks == nil || !p.spellsBytes() {
		return looseWidth
	}
	widest := 1
	for _, token := range t.tokens {
		widest = max(widest, len(token.decodedBytes()))
	}
	if strings.Contains(string(p.Normalizer), `"NFC"`) {
		widest *= nfcShrinks
	}
	return widest
}

// spellsBytes reports whether every byte that no longer token takes is a token of its own, so that
// none becomes a token for the unknown, which may stand for many.
func (p *parts) spellsBytes() bool {
	if p.Model.Type != "BPE" {
		return false
	}
	known := make(map[string]bool, len(p.Vocab))
	for _, text := range p.Vocab {
		if text != nil {
			known[*text] = true
		}
	}
	if p.Model.ByteFallback {
		for b := range 256 {
			if !known[fmt.Sprintf("<0x%02X>", b)] {
				return false
			}
		}
		return true
	}
	for r := range byteOfRune {
		if !known[string(r)] {
			return false
		}
	}
	return p.Decoder.tokenSpelling() == byteLevelSpelling
}
