//go:build cgo

package tokenizer

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/grammar"
)

// FuzzGrammar compiles any text as any kind of form, and draws a text of it: neither ends the process or takes long, and what
// is allowed can be taken.
func FuzzGrammar(f *testing.F) {
	for _, schema := range schemas {
		f.Add(uint8(grammar.JSONSchema), grammar.Schema(schema, false), uint64(1))
	}
	f.Add(uint8(grammar.JSONSchema), `{"$ref":"#"}`, uint64(2))
	f.Add(uint8(grammar.JSONSchema), `{"not":{},"allOf":[{"oneOf":[{"type":"string","format":"uuid"}]}],"patternProperties":{"^a":{}}}`, uint64(3))
	for _, text := range []string{`[a-c]{3}-\d{2}`, `(a|b)*a(a|b){30}c`, `((a{1,100}){1,100}){1,100}`, `(?i)é\b|\pL`} {
		f.Add(uint8(grammar.Regex), text, uint64(4))
	}
	for _, text := range []string{"start: \"a\" | start \"b\"", "start: A & ~B\nA: /a+/\nB: \"aa\"", "start: <[1-9]> %json {\"type\":\"null\"}", "%ignore / /\nstart[lazy]: /a.*b/", "start: a{3,5}\na[capture]: \"x\""} {
		f.Add(uint8(grammar.Lark), text, uint64(5))
	}
	tok := openShape(f, "llama3")
	f.Fuzz(func(t *testing.T, kind uint8, text string, seed uint64) {
		began := time.Now()
		defer func() {
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
		}()
		c, err := tok.Grammar(context.Background(), grammar.Kind(kind%3), text)
		if err != nil {
			return
		}
		defer c.Close()
		random := rand.New(rand.NewPCG(seed, 0))
		var next []engine.TokenID
		for range 20 {
			_, done, err := c.Advance(next...)
			if done || err != nil {
				return
			}
			open, _, err := c.Allowed()
			if err != nil || open.Empty() {
				return
			}
			if id := open.Last(); int(id) >= tok.VocabSize() {
				t.Fatalf("token %d is allowed; there are %d", id, tok.VocabSize())
			}
			next = []engine.TokenID{open.Nth(random.IntN(open.Len()))}
		}
	})
}
