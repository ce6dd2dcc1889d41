package detokenize

import (
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
)

// TestPlace holds the offsets of tokens in a text that they do not spell byte by byte.
func TestPlace(t *testing.T) {
	for _, c := range []struct {
		name, text string
		ids        []engine.TokenID
		offsets    []int
	}{
		{"BOS is not in the text", "ab", []engine.TokenID{tokenBOS, 'a', 'b'}, []int{0, 0, 1}},
		{"BOS is", "<s>ab", []engine.TokenID{tokenBOS, 'a', 'b'}, []int{0, 3, 4}},
		{"EOS is not in the text", "ab", []engine.TokenID{'a', tokenEOS, 'b'}, []int{0, 1, 1}},
		{"a space was put before", "ab", []engine.TokenID{tokenBOS, ' ', 'a', 'b'}, []int{0, 0, 0, 1}},
		{"parts of characters", "é😀x", []engine.TokenID{0xc3, 0xa9, 0xf0, 0x9f, 0x98, 0x80, 'x'}, []int{0, 0, 1, 1, 1, 1, 2}},
		{"a normal form", "xbc", []engine.TokenID{'a', 'b', 'c'}, []int{0, 1, 2}},
		{"more tokens than text", "a", []engine.TokenID{'b', 'b', 'b'}, []int{0, 1, 1}},
	} {
		at, got := NewPlace(byteTokenizer{}, c.text), []int(nil)
		for _, id := range c.ids {
			got = append(got, at.Offset())
			at.Pass(id)
		}
		if !slices.Equal(got, c.offsets) {
			t.Errorf("%s: offsets %v, want %v", c.name, got, c.offsets)
		}
	}
}
