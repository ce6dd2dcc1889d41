package tokenizer

import (
	"context"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
)

func mustEncode(t testing.TB, tok *Tokenizer, text string, addSpecial bool) []engine.TokenID {
	t.Helper()
	ids, err := tok.Encode(context.Background(), "", text, addSpecial)
	if err != nil {
		t.Errorf("Encode(%.60q): %v", text, err)
	}
	return ids
}

func mustDecode(t testing.TB, tok *Tokenizer, ids []engine.TokenID, skipSpecial bool) string {
	t.Helper()
	text, err := tok.Decode(ids, skipSpecial)
	if err != nil {
		t.Errorf("Decode(%v): %v", ids[:min(len(ids), 20)], err)
	}
	return text
}

// bareIDs encodes text in one piece.
func bareIDs(t testing.TB, tok *Tokenizer, text string) []engine.TokenID {
	t.Helper()
	ids, err := encoding{t: tok}.encodeBare(text)
	if err != nil {
		t.Errorf("bare(%.60q): %v", text, err)
	}
	return ids
}

// encodeBy encodes text through a cache, asking bare.
func encodeBy(t testing.TB, cache *chunkCache, text string, bare func(string) ([]engine.TokenID, error)) []engine.TokenID {
	t.Helper()
	ids, err := cache.encodeText(nil, "", text, bare)
	if err != nil {
		t.Errorf("encode(%.60q): %v", text, err)
	}
	return ids
}

// wordIDs encodes text by way of the words that are remembered.
func wordIDs(t testing.TB, tok *Tokenizer, text string) []engine.TokenID {
	t.Helper()
	ids, err := encoding{t: tok}.encodeWords(text)
	if err != nil {
		t.Errorf("words(%.60q): %v", text, err)
	}
	return ids
}
