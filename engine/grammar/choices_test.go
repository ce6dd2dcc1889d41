package grammar

import (
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
)

// walk lists all texts that c allows from where it is, behind text.
func walk(t *testing.T, c Constraint, text string) []string {
	t.Helper()
	set, end, err := c.Allowed()
	if err != nil {
		t.Fatal(err)
	}
	ids := set.IDs()
	if !slices.IsSorted(ids) || len(ids) == 0 {
		t.Errorf("behind %q %v may come", text, ids)
	}
	var all []string
	if end {
		all = append(all, text)
	}
	for _, id := range ids {
		twin, err := c.Clone()
		if err != nil {
			t.Fatal(err)
		}
		forced, done, err := twin.Advance(id)
		if err != nil {
			t.Fatal(err)
		}
		longer := text + spell(id) + spell(forced...)
		if done {
			all = append(all, longer)
		} else {
			all = append(all, walk(t, twin, longer)...)
		}
	}
	return all
}

func spell(ids ...engine.TokenID) string {
	var b strings.Builder
	for _, id := range ids {
		b.WriteByte(byte(id))
	}
	return b.String()
}

func choices(texts ...string) *Choices {
	var all [][]engine.TokenID
	for _, text := range texts {
		var ids []engine.TokenID
		for _, b := range []byte(text) {
			ids = append(ids, engine.TokenID(b))
		}
		all = append(all, ids)
	}
	return NewChoices(all)
}

// TestChoices walks every way through choices, which are then the texts allowed, each once.
func TestChoices(t *testing.T) {
	for _, c := range []struct{ texts, forced string }{
		{"yes no", ""}, {"a ab abc b", ""}, {"spam spark spam", "spa"}, {"x xy", "x"}, {"b a c aa ab ba", ""},
	} {
		texts := strings.Fields(c.texts)
		form := choices(texts...)
		forced, done, err := form.Advance()
		if spell(forced...) != c.forced || done || err != nil {
			t.Errorf("%s begin with %q, done %v, %v", c.texts, spell(forced...), done, err)
		}
		got := walk(t, form, spell(forced...))
		slices.Sort(got)
		slices.Sort(texts)
		if want := slices.Compact(texts); !slices.Equal(got, want) {
			t.Errorf("%s: %q are allowed", c.texts, got)
		}
	}
	if forced, done, err := choices("one").Advance(); spell(forced...) != "one" || !done || err != nil {
		t.Errorf("one choice begins with %v, done %v, %v", forced, done, err)
	}
	form := choices("ab", "cd")
	if _, _, err := form.Advance('a', 'c'); err == nil || !strings.Contains(err.Error(), "token 99 after 1 tokens") {
		t.Errorf("a token that no choice has: %v", err)
	}
	if _, _, err := choices("a", "ab").Advance('a', 'b', 'c'); err == nil {
		t.Error("a token behind the end is taken")
	}
}

func TestTexts(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"^a$", "a"}, {"a", "a"}, {`a\$`, `a\$`}, {`a\\$`, `a\\`}, {"^a|b$", "a|b"}, {"", ""},
	} {
		if got := WholeRegex(c.text); got != c.want {
			t.Errorf("WholeRegex(%q) = %q", c.text, got)
		}
	}
	for _, c := range []struct{ schema, want string }{
		{" {} ", `{"x-guidance":{"whitespace_flexible":false,"item_separator":",","key_separator":":"}}`},
		{`{ "a":1}`, `{"x-guidance":{"whitespace_flexible":false,"item_separator":",","key_separator":":"},"a":1}`},
	} {
		if got := Schema(c.schema, true); got != c.want {
			t.Errorf("Schema(%q) = %q", c.schema, got)
		}
	}
}
