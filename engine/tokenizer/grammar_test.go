//go:build cgo

package tokenizer

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/grammar"
)

// compiled makes a constraint of text.
func compiled(t testing.TB, tok *Tokenizer, kind grammar.Kind, text string) grammar.Constraint {
	t.Helper()
	c, err := tok.Grammar(context.Background(), kind, text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	t.Cleanup(c.Close)
	return c
}

// draw takes a random one of the tokens that c allows until it is done, or may end and chance says so. It returns the text,
// and how many tokens were drawn and how many were forced.
func draw(t testing.TB, tok *Tokenizer, c grammar.Constraint, random *rand.Rand) (text string, drawn, forced int) {
	t.Helper()
	var all, next []engine.TokenID
	for range 2000 {
		more, done, err := c.Advance(next...)
		if err != nil {
			t.Fatalf("behind %q: %v", spelled(tok, all), err)
		}
		all, forced = append(all, more...), forced+len(more)
		if done {
			return spelled(tok, all), drawn, forced
		}
		set, end, err := c.Allowed()
		if err != nil {
			t.Fatalf("behind %q: %v", spelled(tok, all), err)
		}
		open := set.IDs()
		if end && (len(open) == 0 || random.IntN(8) == 0) {
			return spelled(tok, all), drawn, forced
		}
		if len(open) == 0 {
			t.Fatalf("nothing may follow %q", spelled(tok, all))
		}
		next = []engine.TokenID{open[random.IntN(len(open))]}
		all, drawn = append(all, next...), drawn+1
	}
	t.Fatalf("no end after %.200q", spelled(tok, all))
	return
}

// spelled is the text of ids to the byte.
func spelled(tok *Tokenizer, ids []engine.TokenID) string {
	var b strings.Builder
	for _, id := range ids {
		b.Write(tok.TokenBytes(id))
	}
	return b.String()
}

// grammarTokenizers are one whose tokens of a text can be told without what is before it, and one that puts a space before
// every text.
func grammarTokenizers(t testing.TB) map[string]*Tokenizer {
	return map[string]*Tokenizer{"llama3": openLlama3(t), "llama2": openShape(t, "llama2")}
}

var schemas = []string{
	`{"type":"object","properties":{"name":{"type":"string","maxLength":9},"age":{"type":"integer","minimum":0,"maximum":120},"ok":{"enum":["yes","no",null,3]}},"required":["name","age","ok"],"additionalProperties":false}`,
	`{"type":"array","items":{"type":"integer","minimum":-10,"maximum":10},"minItems":2,"maxItems":4}`,
	`{"type":"number","minimum":-1,"maximum":1}`,
	`{"anyOf":[{"const":"a\"b"},{"type":"boolean"},{"type":"object","properties":{"x":{"$ref":"#/$defs/y"}},"required":["x"],"additionalProperties":false}],"$defs":{"y":{"type":"string","pattern":"^[a-z]{2,4}$"}}}`,
	`{"type":"object","properties":{"when":{"type":"string","format":"date"},"tags":{"type":"array","items":{"enum":["a","ab"]},"maxItems":2}},"required":["when","tags"],"additionalProperties":false}`,
	`{"type":["null","integer"],"multipleOf":3,"minimum":3,"maximum":30}`,
}

// TestSchemas draws texts of schemas, all of which another library finds valid.
func TestSchemas(t *testing.T) {
	for name, tok := range grammarTokenizers(t) {
		for _, schema := range schemas {
			judge := judgeOf(t, schema)
			random := rand.New(rand.NewPCG(1, 2))
			form := compiled(t, tok, grammar.JSONSchema, grammar.Schema(schema, false))
			for range 20 {
				c, err := form.Clone()
				if err != nil {
					t.Fatal(err)
				}
				text, _, _ := draw(t, tok, c, random)
				c.Close()
				var v any
				if err := json.Unmarshal([]byte(text), &v); err != nil {
					t.Errorf("%s: %s: %q: %v", name, schema, text, err)
				} else if err := judge.Validate(v); err != nil {
					t.Errorf("%s: %s: %q: %v", name, schema, text, err)
				}
			}
		}
	}
}

func judgeOf(t testing.TB, schema string) *jsonschema.Schema {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(schema), &v); err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("schema.json", v); err != nil {
		t.Fatal(err)
	}
	judge, err := compiler.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return judge
}

// TestForced holds that what a schema leaves no choice in costs no token of the model, where texts can be tokenized alone.
func TestForced(t *testing.T) {
	tok := openLlama3(t)
	c := compiled(t, tok, grammar.JSONSchema, grammar.Schema(`{"type":"object","properties":{"temperature":{"enum":[1,2]},"description":{"type":"boolean"}},"required":["temperature","description"],"additionalProperties":false}`, false))
	text, drawn, forced := draw(t, tok, c, rand.New(rand.NewPCG(1, 1)))
	if drawn > 4 || forced < 8 {
		t.Errorf("%s: %d tokens drawn and %d forced", text, drawn, forced)
	}
}

func TestRegexAndLark(t *testing.T) {
	for name, tok := range grammarTokenizers(t) {
		random := rand.New(rand.NewPCG(3, 4))
		for _, text := range []string{`[a-c]{3}-\d{2}`, `(yes|no)( please)?`, `\p{Greek}{2,5}|é+`, `.{0,9}x`, `(a|b)*c`} {
			want := regexp.MustCompile(`^(?:` + strings.ReplaceAll(text, `\d`, `[\p{Nd}]`) + `)$`)
			for range 20 {
				got, _, _ := draw(t, tok, compiled(t, tok, grammar.Regex, text), random)
				if !want.MatchString(got) {
					t.Errorf("%s: %q is not of %s", name, got, text)
				}
			}
		}
		for range 20 {
			got, _, _ := draw(t, tok, compiled(t, tok, grammar.Lark, "start: \"(\" start? \")\" | NUMBER\nNUMBER: /[0-9]+/\n"), random)
			if bare := strings.Trim(got, "()"); strings.Trim(bare, "0123456789") != "" || strings.Count(got, "(") != strings.Count(got, ")") {
				t.Errorf("%s: %q is not of the grammar", name, got)
			}
		}
	}
}

// TestHostileGrammars holds that no form takes long, much memory or the process.
func TestHostileGrammars(t *testing.T) {
	tok := openLlama3(t)
	properties := func(n int) string {
		var b strings.Builder
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(`"p` + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + strings.Repeat("y", i/26%50) + strings.Repeat("z", i/1300) + `":{"type":"string"}`)
		}
		return `{"type":"object","properties":{` + b.String() + `}}`
	}
	for _, c := range []struct {
		what string
		kind grammar.Kind
		text string
	}{
		{"deep JSON", grammar.JSONSchema, strings.Repeat(`{"items":`, 20000) + `{}` + strings.Repeat("}", 20000)},
		{"deep lists", grammar.JSONSchema, strings.Repeat(`{"type":"array","items":`, 100) + `{}` + strings.Repeat("}", 100)},
		{"refers to itself", grammar.JSONSchema, `{"$ref":"#"}`},
		{"recursion", grammar.JSONSchema, `{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"],"additionalProperties":false}`},
		{"huge enum", grammar.JSONSchema, `{"enum":[` + strings.Repeat(`"aaaaaaaa",`, 20000) + `"b"]}`},
		{"many properties", grammar.JSONSchema, properties(2000)},
		{"huge counts", grammar.JSONSchema, `{"type":"array","minItems":1000000000,"items":{"type":"string","minLength":1000000000}}`},
		{"lengths", grammar.JSONSchema, `{"type":"string","pattern":"(a{1,1000}){1,1000}"}`},
		{"all of all", grammar.JSONSchema, `{"allOf":[` + strings.Repeat(`{"anyOf":[{"type":"string"},{"type":"integer"},{"type":"object"}]},`, 40) + `{}]}`},
		{"repeats", grammar.Regex, `((((a{1,100}){1,100}){1,100}){1,100}){1,100}`},
		{"far ahead", grammar.Regex, `(a|b)*a(a|b){30}c`},
		{"nested stars", grammar.Regex, strings.Repeat("(", 5000) + "a" + strings.Repeat(")*", 5000)},
		{"any then any", grammar.Regex, strings.Repeat(`.*x`, 200)},
		{"negated", grammar.Lark, "start: A\nA: /(a|b)*a(a|b){20}/ & ~/.*b{19}.*/\n"},
		{"left recursion", grammar.Lark, "start: start start | \"a\" | \n"},
		{"ambiguous", grammar.Lark, "start: (\"a\"? \"a\"? \"a\"? start?)*\n"},
		{"long", grammar.Lark, "start: " + strings.Repeat(`"a" `, 60000)},
		{"too long", grammar.Regex, strings.Repeat("a", MaxGrammar+1)},
	} {
		began := time.Now()
		form, err := tok.Grammar(context.Background(), c.kind, c.text)
		steps := 0
		if err == nil {
			random := rand.New(rand.NewPCG(5, 6))
			next := []engine.TokenID(nil)
			for ; steps < 60 && err == nil; steps++ {
				var done bool
				var open engine.TokenSet
				if _, done, err = form.Advance(next...); done || err != nil {
					break
				}
				if open, _, err = form.Allowed(); err == nil && !open.Empty() {
					next = []engine.TokenID{open.Nth(random.IntN(open.Len()))}
				}
			}
			form.Close()
		}
		took := time.Since(began)
		t.Logf("%s: %v, %d steps, %.150v", c.what, took, steps, err)
		if took > time.Minute { // of processor time a compilation has 5 s
			t.Errorf("%s took %v", c.what, took)
		}
	}
}

// TestGrammarErrors holds that the error of what is no form says what is wrong.
func TestGrammarErrors(t *testing.T) {
	tok := openShape(t, "llama2")
	for _, c := range []struct {
		kind       grammar.Kind
		text, says string
	}{
		{grammar.JSONSchema, `{"type":"objekt"}`, "objekt"},
		{grammar.JSONSchema, `{"type":"string","pattern":"(?=a)b"}`, "look-around"},
		{grammar.JSONSchema, `{"$ref":"#/$defs/none"}`, "none"},
		{grammar.JSONSchema, `{"not":{"type":"string"}}`, "not"},
		{grammar.JSONSchema, `{"type":"integer","minimum":3,"maximum":2}`, "minimum"},
		{grammar.JSONSchema, `{`, "EOF"},
		{grammar.Regex, `(ab`, "unclosed group"},
		{grammar.Lark, `start: foo`, `unknown name: "foo"`},
		{grammar.Lark, `root ::= "a"`, "Expected token"},
	} {
		if _, err := tok.Grammar(context.Background(), c.kind, c.text); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want it to say %q", c.text, err, c.says)
		}
	}
	if _, err := NewBytes().Grammar(context.Background(), grammar.Regex, "a"); err == nil {
		t.Error("a tokenizer of bytes has grammars")
	}
}
