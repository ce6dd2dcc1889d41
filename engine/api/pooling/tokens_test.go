package pooling

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestPlace: tokens of bytes, of words in another case, and of texts that were changed.
func TestPlace(t *testing.T) {
	for _, c := range []struct{ text, tokens, want string }{
		{"Ünder a", `[{"id":1,"text":"S","special":true},{"text":"Ün"},{"text":"der"},{"text":" a"}]`,
			`[{"id":1,"text":"S","special":true,"start":null,"stop":null},{"id":0,"text":"Ün","special":false,"start":0,"stop":2},{"id":0,"text":"der","special":false,"start":2,"stop":5},{"id":0,"text":" a","special":false,"start":5,"stop":7}]`},
		{"The  Cats", `[{"text":"the"},{"text":"cat"},{"text":"s"}]`,
			`[{"id":0,"text":"The","special":false,"start":0,"stop":3},{"id":0,"text":"Cat","special":false,"start":5,"stop":8},{"id":0,"text":"s","special":false,"start":8,"stop":9}]`},
		{"ok", `[{"text":"▁?"},{"text":" ok"},{"text":""}]`,
			`[{"id":0,"text":"▁?","special":false,"start":null,"stop":null},{"id":0,"text":"ok","special":false,"start":0,"stop":2},{"id":0,"text":"","special":false,"start":null,"stop":null}]`},
	} {
		var tokens []Token
		if err := json.Unmarshal([]byte(c.tokens), &tokens); err != nil {
			t.Fatal(err)
		}
		Place(tokens, c.text)
		if got, err := json.Marshal(tokens); err != nil || string(got) != c.want {
			t.Errorf("%q: got %s, %v\nwant %s", c.text, got, err, c.want)
		}
	}
}

// TestTokenBodies: what /tokenize and /decode take, and what they refuse.
func TestTokenBodies(t *testing.T) {
	for body, want := range map[string]string{
		`{"inputs":"a"}`: `{"Model":"","Texts":["a"],"AddSpecial":true,"Prompt":null}`, `{"inputs":["a","b"],"add_special_tokens":false,"prompt_name":"q","model":"m"}`: `{"Model":"m","Texts":["a","b"],"AddSpecial":false,"Prompt":"q"}`,
		`{"inputs":[]}`: "inputs is an empty list; give at least one", `{"inputs":[1]}`: "inputs",
		`{"ids":[1,2]}`: `{"Model":"","IDs":[[1,2]],"SkipSpecial":true}`, `{"ids":[[1],[2,3]],"skip_special_tokens":false}`: `{"Model":"","IDs":[[1],[2,3]],"SkipSpecial":false}`,
		`{"ids":"a"}`: "ids must be a list of token ids", `{"ids":[]}`: "ids is an empty list", `{"ids":null}`: "ids is missing", `{"ids":[-1]}`: "ids",
	} {
		var got any
		if TokenizesTexts([]byte(body)) {
			r, err := DecodeTokenize([]byte(body))
			if got = r; err != nil {
				got = err
			}
		} else {
			r, err := DecodeIDs([]byte(body))
			if got = r; err != nil {
				got = err
			}
		}
		text, err := json.Marshal(got)
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %s, %v; want %s", body, text, err, want)
		}
	}
}

// FuzzTokens: any body of /tokenize and /decode is decoded or refused, and places of tokens are within their text, one behind
// the other.
func FuzzTokens(f *testing.F) {
	f.Add([]byte(`{"inputs":["ab c","Ü"],"add_special_tokens":false}`), "ab c", "ab| c|x")
	f.Add([]byte(`{"ids":[[1,2],[3]],"skip_special_tokens":false}`), "The  Cat", "the|cat|")
	f.Add([]byte(`{"ids":[1,2]}`), "\xff\n", "\xff|\n")
	f.Fuzz(func(t *testing.T, body []byte, text, spelt string) {
		if r, err := DecodeTokenize(body); err == nil && (len(r.Texts) == 0 || len(r.Texts) > MaxInputs) {
			t.Errorf("decoded %+v", r)
		}
		if r, err := DecodeIDs(body); err == nil && (len(r.IDs) == 0 || len(r.IDs) > MaxInputs) {
			t.Errorf("decoded %+v", r)
		}
		var tokens []Token
		for one := range strings.SplitSeq(spelt, "|") {
			tokens = append(tokens, Token{Text: one})
		}
		Place(tokens, text)
		at := 0
		for _, token := range tokens {
			if token.Start == nil {
				continue
			}
			if *token.Start < at || *token.Stop < *token.Start || *token.Stop > utf8.RuneCountInString(text) {
				t.Fatalf("%q: %d to %d behind %d", text, *token.Start, *token.Stop, at)
			}
			at = *token.Stop
		}
	})
}
