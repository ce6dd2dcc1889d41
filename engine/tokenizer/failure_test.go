//go:build cgo

package tokenizer

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// TestGivingUpIsAnError encodes a text on which the regular expression of Llama 3 exceeds the
// retries that its engine allows.
func TestGivingUpIsAnError(t *testing.T) {
	tok := openLlama3(t)
	ids, err := tok.Encode(t.Context(), "", strings.Repeat(" ", 11_000_000)+"x", true)
	if err == nil || !strings.Contains(err.Error(), "retry-limit-in-match over") || ids != nil {
		t.Errorf("got %d ids, %v", len(ids), err)
	}
}

// TestEncodeEndsWithItsContext leaves while a text is encoded that would take several times as long: in
// chunks, and by a tokenizer that is given all of it at once.
func TestEncodeEndsWithItsContext(t *testing.T) {
	text := randomText(rand.New(rand.NewPCG(20, 21)), 400_000)
	for name, tok := range map[string]*Tokenizer{"chunks": openLlama3(t), "whole": openModule(t, "bert-base-uncased.json")} {
		ctx, leave := context.WithTimeout(t.Context(), 50*time.Millisecond)
		start := time.Now()
		if ids, err := tok.Encode(ctx, "", text, true); !errors.Is(err, context.DeadlineExceeded) || ids != nil {
			t.Errorf("%s: %d ids, %v", name, len(ids), err)
		}
		left := time.Since(start)
		leave()
		start = time.Now()
		if _, err := tok.Encode(t.Context(), "", text, true); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if whole := time.Since(start); left > whole/2 {
			t.Errorf("%s: ended after %v; all of the text takes %v", name, left, whole)
		}
	}
}

// TestTextsFitTheirTokens holds that no text has more bytes than BytesPerToken for each of its tokens.
func TestTextsFitTheirTokens(t *testing.T) {
	rng := rand.New(rand.NewPCG(22, 23))
	toks := map[string]*Tokenizer{"Llama 3 8B": openLlama3(t), "bytes": NewBytes()}
	for _, name := range shapes {
		toks[name] = openShape(t, name)
	}
	for name, tok := range toks {
		width := tok.BytesPerToken()
		if width >= looseWidth {
			t.Errorf("%s: %d bytes a token are no bound", name, width)
		}
		widest := 0
		for id := range tok.VocabSize() {
			text := string(tok.TokenBytes(uint32(id)))
			widest = max(widest, len(text))
			texts := []string{text, strings.Repeat(text, 20), text + randomText(rng, 10)}
			if id%max(50, tok.VocabSize()/200) != 0 && len(text) < widest {
				texts = nil
			}
			for _, text := range append(texts, strings.Repeat("\u1112\u1161\u11ab", id%3)) {
				if ids := bareIDs(t, tok, text); len(text) > len(ids)*width {
					t.Fatalf("%s: the %d bytes of %.80q are %d tokens of at most %d bytes", name, len(text), text, len(ids), width)
				}
			}
		}
		if width > nfcShrinks*widest {
			t.Errorf("%s: a bound of %d bytes; the longest token has %d", name, width, widest)
		}
	}
	if width := openModule(t, "bert-base-uncased.json").BytesPerToken(); width != looseWidth {
		t.Errorf("WordPiece, which has a token for any word: %d bytes a token", width)
	}
}
