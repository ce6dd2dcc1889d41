package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestKeysOnce: a key given twice is refused by name, wherever it is and however it is written; keys that
// differ, or are of different objects, are not.
func TestKeysOnce(t *testing.T) {
	var many strings.Builder
	for i := range 100 {
		fmt.Fprintf(&many, `"key %d":%d,`, i, i)
	}
	for body, key := range map[string]string{
		`{"prompt":"a","prompt":"b"}`:                                                       "prompt",
		`{"prompt":"a","prompt":[1]}`:                                                       "prompt",
		`{"prompt":"a","PROMPT":"b"}`:                                                       "PROMPT",
		`{"prompt":"a","pro\u006dpt":"b"}`:                                                  "prompt",
		`{"prompt":"a","n":1,"x":{"y":[{"z":1,"z":2}]}}`:                                    "z",
		`{"prompt":"a","logit_bias":{"7":1,"7":2}}`:                                         "7",
		`{"prompt":"a","max_tokens":1,"max_tokens":1}`:                                      "max_tokens",
		`{` + many.String() + `"prompt":"a","Key 50":1}`:                                    "Key 50",
		`{"prompt":"a","x":{` + many.String() + `"key 50":1}}`:                              "key 50",
		`{"prompt":"\\","prompt":"b"}`:                                                      "prompt",
		`{"prompt":["a"],"x":{"y":1,"Y":2,"z":{"y":1}},"v":[{"y":1},{"y":1}],"\"":1}`:       "",
		`{"prompt":"a\",\"prompt\":\"b\\","user":"prompt","x":["user","user"]}`:             "",
		`{"prompt":"a","x":{` + many.String() + `"Key 50":1}}`:                              "",
		` { "prompt" : "a" , "x" : [ ] , "y" : { } , "z" : [ 1 , true , null , -1.5e3 ] } `: "",
	} {
		err := Decode([]byte(body), &longBody{})
		if key == "" {
			if err != nil {
				t.Errorf("%.80s: %v", body, err)
			}
		} else if err == nil || err.Param != key || !strings.Contains(err.Message, "twice") {
			t.Errorf("%.80s: %v, want %s named", body, err, key)
		}
	}
}

// FuzzKeysOnce holds the check to encoding/json's tokens, and to valid bodies of any form.
func FuzzKeysOnce(f *testing.F) {
	for _, seed := range []string{`{"a":1,"a":2}`, `[{"a":"\\\""},"a"]`, `"a"`, `1`, `{"a":{"b":[],"b":{}}}`, `{"ſ":1,"s":1}`, `[[],[[]]]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if !json.Valid(body) {
			return
		}
		if got, want := checkOnce(body) != nil, repeats(json.NewDecoder(strings.NewReader(string(body))), true); got != want {
			t.Errorf("%q: %v, want %v", body, got, want)
		}
	})
}

// repeats reads one value and says whether an object in it has a key twice.
func repeats(d *json.Decoder, outer bool) bool {
	token, _ := d.Token()
	found := false
	switch token {
	case json.Delim('{'):
		var keys []string
		for d.More() {
			name, _ := d.Token()
			key := name.(string)
			for _, k := range keys {
				found = found || k == key || outer && strings.EqualFold(k, key)
			}
			keys = append(keys, key)
			found = repeats(d, false) || found
		}
	case json.Delim('['):
		for d.More() {
			found = repeats(d, false) || found
		}
	default:
		return false
	}
	_, _ = d.Token()
	return found
}
