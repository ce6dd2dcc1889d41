package pooling

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/api"
)

var update = flag.Bool("update", false, "rewrite the expected part of testdata files")

// sample is one testdata file: a body of a path, and what it is decoded to or refused with, in the words of the path's API.
type sample struct {
	Path    string          `json:"path"`
	Body    json.RawMessage `json:"body"`
	Decoded *Request        `json:"decoded,omitempty"`
	Status  int             `json:"status,omitempty"`
	Refused any             `json:"refused,omitempty"`
}

func endpoint(path string) (Endpoint, bool) {
	for _, e := range Endpoints() {
		if e.Path == path {
			return e, true
		}
	}
	return Endpoint{}, false
}

// TestSamples: bodies as clients send them.
func TestSamples(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) < 10 {
		t.Fatalf("found %d samples: %v", len(files), err)
	}
	for _, file := range files {
		old, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var s sample
		if err := json.Unmarshal(old, &s); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		e, ok := endpoint(s.Path)
		if !ok {
			t.Fatalf("%s: no path %s", file, s.Path)
		}
		decoded, refused := e.Decode(s.Body)
		if bad := strings.HasSuffix(file, ".bad.json"); bad != (refused != nil) {
			t.Errorf("%s: refused = %v", file, refused)
		}
		s.Decoded, s.Status, s.Refused = decoded, 0, nil
		if refused != nil {
			s.Decoded = nil
			s.Status, s.Refused = e.Errors(s.Body).Error(400, refused)
		}
		var fresh bytes.Buffer
		encoder := json.NewEncoder(&fresh)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", " ")
		if err := encoder.Encode(&s); err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(file, fresh.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if !bytes.Equal(fresh.Bytes(), old) {
			t.Errorf("%s: got\n%s\nwant\n%s", file, fresh.Bytes(), old)
		}
	}
}

// TestDialects: an error of each status in the words of each API.
func TestDialects(t *testing.T) {
	for _, c := range []struct {
		dialect Dialect
		status  int
		code    string
		want    string
	}{
		{OpenAI, 400, "c", `400 {"error":{"message":"m","type":"t","param":null,"code":"c"}}`},
		{Cohere, 429, "c", `429 {"message":"m"}`},
		{TEI, 400, "c", `422 {"error":"m","error_type":"Validation"}`},
		{TEI, 400, "tokenization_failed", `422 {"error":"m","error_type":"Tokenizer"}`},
		{TEI, 400, CodeEmpty, `400 {"error":"m","error_type":"Empty"}`},
		{TEI, 401, "c", `401 {"error":"m","error_type":"Validation"}`},
		{TEI, 413, "c", `413 {"error":"m","error_type":"Validation"}`},
		{TEI, 429, "c", `429 {"error":"m","error_type":"Overloaded"}`},
		{TEI, 500, "c", `424 {"error":"m","error_type":"Backend"}`},
		{TEI, 503, "c", `503 {"error":"m","error_type":"Unhealthy"}`},
	} {
		status, body := c.dialect.Error(c.status, &api.Error{Message: "m", Type: "t", Code: c.code})
		text, err := json.Marshal(body)
		status2, _ := json.Marshal(status)
		if got := string(status2) + " " + string(text); err != nil || got != c.want {
			t.Errorf("got %s, %v, want %s", got, err, c.want)
		}
	}
}

// FuzzDecode: any body of any path is decoded or refused. What is decoded is within the bounds, and can be answered.
func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		var s sample
		if err := json.Unmarshal(text, &s); err != nil {
			f.Fatal(err)
		}
		f.Add(s.Path, []byte(s.Body))
	}
	f.Fuzz(func(t *testing.T, path string, body []byte) {
		e, ok := endpoint(path)
		if !ok {
			return
		}
		dialect := e.Errors(body)
		r, refused := e.Decode(body)
		if refused != nil {
			if _, err := json.Marshal(refused); err != nil || refused.Message == "" {
				t.Errorf("refused with %+v, %v", refused, err)
			}
			_, body := dialect.Error(400, refused)
			if _, err := json.Marshal(body); err != nil {
				t.Error(err)
			}
			return
		}
		n := len(r.Inputs) + len(r.Documents)
		if r.Messages != nil {
			n = 1
		}
		if n == 0 || n > MaxInputs || len(r.Queries) > max(1, len(r.Documents)) || (r.Task == Labels) != (r.Query != nil) {
			t.Fatalf("decoded %+v", r)
		}
		a := Answer{ID: "x", Model: r.Model, Usage: &api.Usage{}, Classes: []string{"a", "b"}}
		for range n {
			result := Result{Vector: []float32{1, 2}, Rows: 1}
			if r.Task != Embed && r.Task != EmbedTokens {
				result = Result{Scores: []float64{0.25, 0.75}, Rows: 1}
			}
			a.Results = append(a.Results, result)
		}
		answer := r.Answered(a).AppendJSON(nil, nil)
		if len(r.Documents) > 0 {
			return // their texts are encoded by what has its own tests
		}
		if !json.Valid(answer) {
			t.Errorf("answered %q", answer)
		}
	})
}
