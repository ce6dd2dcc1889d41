// Package mutate makes hostile inputs of good ones, for tests: values are replaced, repeated, cut and moved from one to another, and bits flipped.
package mutate

import (
	"math/rand/v2"
	"strings"
)

// Mutator makes inputs of others. A generator that was seeded alike makes the same ones.
type Mutator struct {
	*rand.Rand
	Seeds  []string // that pieces are taken from
	Values []string // that are put in the place of others
	Marks  string   // what stands between values, the second one between repeated ones; empty: a value is a few bytes anywhere
}

// JSON are values that a member of an object should not have, or only seldom.
var JSON = []string{
	`null`, `true`, `0`, `-1`, `0.5`, `1e400`, `9223372036854775808`, `4294967296`, `""`, `"\u0000"`, `"` + strings.Repeat("z", 4000) + `"`,
	`[]`, `{}`, `[null]`, `[[[]]]`, `[-1]`, `[4294967295]`, `["a",1]`, `{"":null}`, `{"a":{"a":{"a":[]}}}`,
}

// OfJSON mutates texts of JSON.
func OfJSON(pick *rand.Rand, seeds []string) *Mutator { return &Mutator{pick, seeds, JSON, ":,[]{}"} }

// binary are numbers at the ends of their ranges, as varints and as fixed ones in little-endian order.
var binary = []string{
	"", "\x00", "\x01", "\x7f", "\x80", "\xff", "\x80\x80\x01", "\xff\xff\xff\xff\x07", "\xff\xff\xff\xff\x0f", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
	"\x00\x00\x80\x3f", "\x00\x00\x80\x7f", "\x00\x00\xc0\x7f", "\x00\x00\x80\xbf", strings.Repeat("\x00", 300), strings.Repeat("\x01", 300), strings.Repeat("\xff", 300),
}

// OfBinary mutates bytes.
func OfBinary(pick *rand.Rand, seeds []string) *Mutator { return &Mutator{pick, seeds, binary, ""} }

// Mutate changes a text in one or two places.
func (m *Mutator) Mutate(text string) string {
	for range 1 + m.IntN(4)/2 {
		if text == "" {
			return text
		}
		begin, end := m.value(text)
		switch m.IntN(8) {
		case 0, 1, 2:
			text = text[:begin] + m.Values[m.IntN(len(m.Values))] + text[end:]
		case 3: // of another one
			other := m.Seeds[m.IntN(len(m.Seeds))]
			if other != "" {
				from, to := m.value(other)
				text = text[:begin] + other[from:to] + text[end:]
			}
		case 4: // twice, as an element or a member more
			text = text[:end] + m.mark() + text[begin:]
		case 5:
			text = text[:begin] + text[end:]
		case 6:
			at := m.IntN(len(text))
			text = text[:at] + string(rune(m.IntN(0x300))) + text[at+1:]
		case 7:
			at := m.IntN(len(text))
			text = text[:at] + string([]byte{text[at] ^ 1<<m.IntN(8)}) + text[at+1:]
		}
	}
	return text
}

func (m *Mutator) mark() string {
	if m.Marks == "" {
		return ""
	}
	return m.Marks[1:2]
}

// value is a place in a text: between two marks.
func (m *Mutator) value(text string) (begin, end int) {
	at := m.IntN(len(text))
	if m.Marks == "" {
		return at, min(len(text), at+1+m.IntN(8))
	}
	begin = strings.LastIndexAny(text[:at], m.Marks) + 1
	if end = strings.IndexAny(text[begin:], m.Marks); end < 0 {
		return begin, len(text)
	}
	return begin, begin + end
}
