package completions

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
)

var update = flag.Bool("update", false, "rewrite the expected part of testdata files")

// sample is one testdata file: a body, as JSON or as raw text, and what decoding it gives.
type sample struct {
	Kind    string          `json:"kind"` // completion, chat, tokenize, detokenize
	Body    json.RawMessage `json:"body,omitempty"`
	Raw     *string         `json:"raw,omitempty"` // in place of Body, for what is not JSON
	Decoded any             `json:"decoded,omitempty"`
	Error   *api.Error      `json:"error,omitempty"`
}

func (s *sample) bytes() []byte {
	if s.Raw != nil {
		return []byte(*s.Raw)
	}
	return s.Body
}

func decodeKind(kind string, body []byte) (any, *api.Error) {
	switch kind {
	case "completion":
		return DecodeCompletion(body)
	case "chat":
		return DecodeChat(body)
	case "tokenize":
		return DecodeTokenize(body)
	case "detokenize":
		return DecodeDetokenize(body)
	}
	return nil, api.Invalid("kind", "testdata has unknown kind %q", kind)
}

func TestSamples(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) < 20 {
		t.Fatalf("found %d samples: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			checkSample(t, file)
		})
	}
}

func checkSample(t *testing.T, file string) {
	old, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var s sample
	if err := json.Unmarshal(old, &s); err != nil {
		t.Fatal(err)
	}
	decoded, refused := decodeKind(s.Kind, s.bytes())
	if bad := strings.HasSuffix(file, ".bad.json"); bad != (refused != nil) {
		t.Fatalf("refused = %v, but the file is %s", refused, file)
	}
	s.Decoded, s.Error = nil, refused
	if refused == nil {
		s.Decoded = decoded
	}
	fresh := encodeSample(t, &s)
	if *update {
		if err := os.WriteFile(file, fresh, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(fresh, old) {
		t.Errorf("got\n%s\nwant\n%s", fresh, old)
	}
}

func encodeSample(t *testing.T, s *sample) []byte {
	t.Helper()
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(s); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestErrorsNameTheirField holds every refusal of a well-formed body to name the field at fault.
func TestErrorsNameTheirField(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.bad.json")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var s sample
		if err := json.Unmarshal(data, &s); err != nil {
			t.Fatal(err)
		}
		if s.Error.Code != "invalid_json" && (s.Error.Param == "" || !strings.Contains(s.Error.Message, s.Error.Param)) {
			t.Errorf("%s: param %q is not named in %q", file, s.Error.Param, s.Error.Message)
		}
	}
}

func seedSamples(f *testing.F, kind string) {
	files, _ := filepath.Glob("testdata/*.json")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		var s sample
		if json.Unmarshal(data, &s) == nil && s.Kind == kind {
			f.Add(s.bytes())
		}
	}
}

func FuzzDecodeCompletion(f *testing.F) {
	seedSamples(f, "completion")
	f.Fuzz(func(t *testing.T, body []byte) {
		r, refused := DecodeCompletion(body)
		if refused != nil {
			if refused.Message == "" || refused.Type == "" {
				t.Fatalf("empty refusal %+v", refused)
			}
			return
		}
		if r.MaxTokens != nil && *r.MaxTokens < 0 || r.N < 1 || r.Prompt.Len() < 1 || r.Top > engine.MaxTop {
			t.Fatalf("invalid request passed: %+v", r)
		}
	})
}

func FuzzDecodeChat(f *testing.F) {
	seedSamples(f, "chat")
	f.Fuzz(func(t *testing.T, body []byte) {
		r, refused := DecodeChat(body)
		if refused == nil && (r.N < 1 || !json.Valid(r.Messages)) {
			t.Fatalf("invalid request passed: %+v", r)
		}
	})
}

func FuzzDecodeTokenize(f *testing.F) {
	seedSamples(f, "tokenize")
	f.Fuzz(func(t *testing.T, body []byte) {
		r, refused := DecodeTokenize(body)
		if refused == nil && (r.Prompt == nil) == (len(r.Messages) == 0) {
			t.Fatalf("neither or both of prompt and messages passed: %+v", r)
		}
	})
}

func FuzzDecodeDetokenize(f *testing.F) {
	seedSamples(f, "detokenize")
	f.Fuzz(func(t *testing.T, body []byte) {
		if r, refused := DecodeDetokenize(body); refused == nil && r.Tokens == nil {
			t.Fatalf("missing tokens passed: %s", body)
		}
	})
}

func FuzzLogitBias(f *testing.F) {
	for _, seed := range []string{`{"1":2,"0":-100}`, `{"01":1}`, `{"-1":1}`, `{"4294967296":0}`, `{"1":101}`, `{"1":"a"}`, `[]`, `null`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var bias LogitBias
		if json.Unmarshal(raw, &bias) != nil {
			return
		}
		for i, b := range bias {
			if b.Bias < -100 || b.Bias > 100 || i > 0 && bias[i-1].ID >= b.ID {
				t.Fatalf("%s: bias out of range or order: %v", raw, bias)
			}
		}
	})
}

func BenchmarkDecodeTokens(b *testing.B) {
	ids := make([]uint32, 4096)
	for i := range ids {
		ids[i] = uint32(i * 31 % 151936)
	}
	prompt, err := json.Marshal(ids)
	if err != nil {
		b.Fatal(err)
	}
	body := []byte(`{"model":"m","max_tokens":1,"prompt":` + string(prompt) + `}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, refused := DecodeCompletion(body); refused != nil {
			b.Fatal(refused)
		}
	}
}

// TestKeysOnce: no endpoint takes a key given twice.
func TestKeysOnce(t *testing.T) {
	for _, decode := range []func([]byte) *api.Error{
		func(b []byte) *api.Error { _, err := DecodeCompletion(b); return err },
		func(b []byte) *api.Error { _, err := DecodeChat(b); return err },
		func(b []byte) *api.Error { _, err := DecodeTokenize(b); return err },
		func(b []byte) *api.Error { _, err := DecodeDetokenize(b); return err },
	} {
		body := `{"prompt":"a","messages":null,"tokens":[1],"user":"a","user":"b"}`
		if err := decode([]byte(strings.Replace(body, `"messages":null`, `"messages":[{"role":"user","content":"a"}]`, 1))); err == nil || err.Param != "user" {
			t.Error("a key given twice is taken")
		}
	}
}
