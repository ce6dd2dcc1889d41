package frontend

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
)

var update = flag.Bool("update", false, "rewrite the responses in testdata files")

// sample is one testdata file: a request and the response to it.
type sample struct {
	Method   string            `json:"method"`
	Path     string            `json:"path"`
	Header   map[string]string `json:"header,omitempty"`
	Body     json.RawMessage   `json:"body,omitempty"`
	Says     string            `json:"says"` // what the model generates; ends with EOS
	Status   int               `json:"status"`
	Response json.RawMessage   `json:"response,omitempty"`
	Events   []json.RawMessage `json:"events,omitempty"` // of a stream, less the last, which is [DONE]
}

// TestSamples holds every answer, byte for byte, to the one in testdata.
func TestSamples(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) < 30 {
		t.Fatalf("found %d samples: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { checkSample(t, file) })
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
	f, _ := newFrontend(t, Config{Version: "1.2.3"}, say(s.Says, engine.FinishStop))
	header := []string{"X-Request-Id", "r1"}
	for name, value := range s.Header {
		header = append(header, name, value)
	}
	w := do(f, s.Method, s.Path, string(s.Body), header...)
	s.Status = w.Code
	if good := strings.HasSuffix(file, ".good.json"); good != (w.Code == http.StatusOK) {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	if w.Header().Get("X-Request-Id") != "r1" {
		t.Errorf("request id %q", w.Header().Get("X-Request-Id"))
	}
	record(t, &s, w)
	fresh := indent(t, &s)
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

// record puts what was answered into s.
func record(t *testing.T, s *sample, w *httptest.ResponseRecorder) {
	s.Response, s.Events = nil, nil
	if !strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream") {
		s.Response = scrub(t, w.Body.Bytes())
		return
	}
	events := strings.Split(w.Body.String(), "\n\n")
	if n := len(events); n < 2 || events[n-1] != "" || events[n-2] != "data: [DONE]" {
		t.Fatalf("the stream does not end with [DONE]: %q", w.Body)
	}
	for _, e := range events[:len(events)-2] {
		data, ok := strings.CutPrefix(e, "data: ")
		if !ok || strings.Contains(data, "\n") {
			t.Fatalf("malformed event %q", e)
		}
		s.Events = append(s.Events, scrub(t, []byte(data)))
	}
}

// scrub replaces times of creation.
func scrub(t *testing.T, body []byte) json.RawMessage {
	if !json.Valid(body) {
		t.Fatalf("not JSON: %s", body)
	}
	return created.ReplaceAll(body, []byte(`"created":0`))
}

var created = regexp.MustCompile(`"created":[0-9]+`)

func indent(t *testing.T, s *sample) []byte {
	t.Helper()
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(s); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
