package api

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzAppendString holds the string encoder to encoding/json's.
func FuzzAppendString(f *testing.F) {
	for _, seed := range []string{"", "a\"b\\c", "\x00\x7f\n\t\r", "é日😀", "\xff\xc3", "\xe2\x80", "\u2028"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var want bytes.Buffer
		encoder := json.NewEncoder(&want)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(s); err != nil {
			t.Fatal(err)
		}
		var a, b string
		if err := json.Unmarshal(AppendString(nil, s), &a); err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		if err := json.Unmarshal(want.Bytes(), &b); err != nil || a != b {
			t.Fatalf("%q reads back as %q, want %q (%v)", s, a, b, err)
		}
	})
}

func TestErrorBody(t *testing.T) {
	body, err := json.Marshal(&Error{Message: "m", Type: TypeServer})
	if err != nil || string(body) != `{"error":{"message":"m","type":"server_error","param":null,"code":null}}` {
		t.Errorf("got %s, %v", body, err)
	}
	var back Error
	if err := json.Unmarshal([]byte(`{}`), &back); err == nil {
		t.Error("a body without an error object is decoded")
	}
}
