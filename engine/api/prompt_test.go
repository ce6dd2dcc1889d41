package api

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzPrompt holds the hand scanner to what encoding/json reads from the same bytes.
func FuzzPrompt(f *testing.F) {
	for _, seed := range []string{`"a\u00e9\"b"`, `[1,2, 3 ]`, `[[1],[ ]]`, `["a","b\\"]`, `[4294967296]`, `[1.5]`, `[-1]`, `[1e3]`, `[null]`, `[["a"]]`, `[]`, `[[1],"a"]`, `["a",1]`, `{}`, `null`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) || bytes.Contains(raw, []byte("null")) {
			return
		}
		var got Prompt
		failed := json.Unmarshal(raw, &got) != nil
		want, ok := slowPrompt(raw)
		if failed == ok {
			t.Fatalf("%s: refused is %v, want %v", raw, failed, !ok)
		}
		if !failed && !equalJSON(t, got, want) {
			t.Fatalf("%s: got %+v, want %+v", raw, got, want)
		}
	})
}

func slowPrompt(raw []byte) (Prompt, bool) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return Prompt{Texts: []string{text}}, true
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || len(list) == 0 {
		return Prompt{}, false
	}
	var texts []string
	if json.Unmarshal(raw, &texts) == nil {
		return Prompt{Texts: texts}, true
	}
	var ids []uint32
	if json.Unmarshal(raw, &ids) == nil && !bytes.ContainsAny(raw, "-") {
		return Prompt{Tokens: [][]uint32{ids}}, true
	}
	var lists [][]uint32
	if json.Unmarshal(raw, &lists) == nil && !bytes.ContainsAny(raw, "-") {
		return Prompt{Tokens: lists}, true
	}
	return Prompt{}, false
}

func equalJSON(t *testing.T, a, b any) bool {
	t.Helper()
	left, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	right, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Equal(left, right)
}

func FuzzStop(f *testing.F) {
	for _, seed := range []string{`"a"`, `["a","b"]`, `[1]`, `{}`, `null`, `[]`, `["\ud83d"]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var stop Strings
		if json.Unmarshal(raw, &stop) != nil {
			return
		}
		var one string
		var many []string
		if json.Unmarshal(raw, &one) != nil && json.Unmarshal(raw, &many) != nil {
			t.Fatalf("%s decoded as %q", raw, stop)
		}
	})
}
