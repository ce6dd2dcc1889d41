//go:build cgo

package tokenizer

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	apiforms "github.com/prefillonly/prefillonly/engine/api/forms"
	"github.com/prefillonly/prefillonly/engine/grammar"
)

// TestPatternsAreECMAs: of each pattern, texts that a schema with it lets through are those that match it by an engine of ECMA-262, which
// tools/golden/patterns.mjs has asked; none that does not. What that engine takes for no pattern is refused, and what is listed here. What it
// takes without the flag u alone may be refused, where an escape or a group is another one with it.
func TestPatternsAreECMAs(t *testing.T) {
	unsupported := []string{"(^a)", "(a$)", "a^b", "a$b", "^^a", "a$$", "(?=a)a", "(?!a)b", "(?<=a)b", "(?<!a)b", `(a)\1`, `(?<n>a)\k<n>`, `\bcat\b`, `\Bcat`, `\ud83d`, "^a{}$", "^a{,5}$", "^x{,5}$"}
	narrower := []string{`^\D$`, `^\W$`, `^\s$`, `^[^\d]$`, `^[\D]$`, `^[\s]$`, `^[^\S]$`, `^[^\w]$`, `^[^\da-c]$`, `^\S$`, `^[\S]$`, `^[^\s]$`} // of two readings
	var golden struct {
		Texts    []string
		Patterns []struct {
			Pattern, Flags string
			Matches        *[]int
		}
	}
	raw, err := os.ReadFile("testdata/patterns.json")
	if err == nil {
		err = json.Unmarshal(raw, &golden)
	}
	if err != nil || len(golden.Patterns) < 200 {
		t.Fatalf("%d patterns, %v", len(golden.Patterns), err)
	}
	tok := openShape(t, "gpt2")
	for _, p := range golden.Patterns {
		c, err := patternForm(t, tok, p.Pattern)
		refuses := p.Matches == nil || slices.Contains(unsupported, p.Pattern)
		switch old := p.Flags == "" && strings.ContainsAny(p.Pattern, `\(`); {
		case refuses && err == nil:
			t.Errorf("%s is taken", p.Pattern)
		case !refuses && !old && err != nil && len(*p.Matches) > 0:
			t.Errorf("%s is refused: %v", p.Pattern, err)
		}
		if err != nil || p.Matches == nil {
			continue
		}
		for i, text := range golden.Texts {
			form, err := c()
			if err != nil {
				t.Fatal(err)
			}
			got, want := takes(t, tok, form, string(api.AppendString(nil, text))), slices.Contains(*p.Matches, i)
			form.Close()
			if got && !want || want && !got && !slices.Contains(narrower, p.Pattern) {
				t.Errorf("%s of %q: %v, want %v", p.Pattern, text, got, want)
			}
		}
	}
}

// patternForm makes constraints of the form of a JSON string of a pattern.
func patternForm(t *testing.T, tok *Tokenizer, pattern string) (func() (grammar.Constraint, error), error) {
	t.Helper()
	schema, err := json.Marshal(map[string]string{"type": "string", "pattern": pattern})
	if err != nil {
		t.Fatal(err)
	}
	form, refused := (&apiforms.Fields{GuidedJSON: schema}).Form()
	if refused != nil {
		return nil, refused
	}
	made := func() (grammar.Constraint, error) {
		return tok.Grammar(context.Background(), grammar.JSONSchema, form.Text)
	}
	c, err := made()
	if err == nil {
		c.Close()
	}
	return made, err
}

// takes says whether a constraint lets a text through, byte by byte.
func takes(t *testing.T, tok *Tokenizer, c grammar.Constraint, text string) bool {
	t.Helper()
	var next []engine.TokenID
	for {
		forced, done, err := c.Advance(next...)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		rest, ok := strings.CutPrefix(text, spelled(tok, forced))
		if text = rest; !ok || done {
			return ok && text == ""
		}
		set, end, err := c.Allowed()
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if text == "" {
			return end
		}
		i := slices.IndexFunc(set.IDs(), func(id engine.TokenID) bool { return string(tok.TokenBytes(id)) == text[:1] })
		if i < 0 {
			return false
		}
		next, text = []engine.TokenID{set.IDs()[i]}, text[1:]
	}
}
