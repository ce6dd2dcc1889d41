//go:build cgo

package tokenizer

import (
	"context"
	"testing"

	"github.com/prefillonly/prefillonly/engine/grammar"
)

func BenchmarkGrammar(b *testing.B) {
	tok := openLlama3(b)
	schema := grammar.Schema(schemas[0], false)
	compiled(b, tok, grammar.JSONSchema, schema)
	b.Run("compile", func(b *testing.B) {
		for b.Loop() {
			c, _ := tok.Grammar(context.Background(), grammar.JSONSchema, schema)
			c.Close()
		}
	})
	for _, text := range []string{"[0-9]{99}", ".{999}"} {
		c := compiled(b, tok, grammar.Regex, text)
		c.Advance()
		b.Run("mask of "+text, func(b *testing.B) {
			for b.Loop() {
				c.Allowed()
			}
		})
	}
}
