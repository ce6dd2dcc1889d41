package frontend

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/client/clienttest"
	"github.com/prefillonly/prefillonly/engine/frontend/registry"
)

// TestAdaptersAreRefused: a body that names an adapter, under whichever server's name for it, is refused on every path that asks a
// model, and one that names none is not.
func TestAdaptersAreRefused(t *testing.T) {
	f, _ := newEvery(t, -1)
	for _, c := range overlongBodies {
		for _, field := range []string{"lora_request", "lora_path", "lora_name", "lora_adapters", "lora", "adapter_id", "adapter_source", "adapters"} {
			for value, refused := range map[string]bool{`"x"`: true, `[{"id":0,"scale":1.0}]`: true, `{"lora_name":"x"}`: true, `null`: false, `[]`: false, `""`: false} {
				body := fmt.Sprintf(`{"model":%q,%q:%s,%s}`, c.model, field, value, fill(c.body, 2))
				w := do(f, http.MethodPost, c.path, body)
				if said := strings.Contains(w.Body.String(), field+" names an adapter, which is asked for as the model here"); said != refused || refused && w.Code/100 != 4 {
					t.Errorf("%s %s: status %d: %.300s", c.path, body, w.Code, w.Body)
				}
			}
		}
	}
}

// TestFieldsThatChangeTheAnswerAreRefused: fields of other servers that ask for another answer, and are not served, are refused
// unless they say nothing.
func TestFieldsThatChangeTheAnswerAreRefused(t *testing.T) {
	f, _ := newEvery(t, -1)
	for field, values := range map[string][2]string{
		"n_predict": {`-1`, `5`}, "max_new_tokens": {`null`, `5`}, "regex": {`""`, `"a+"`}, "ebnf": {`null`, `"root ::= x"`}, "grammar": {`""`, `"root ::= x"`},
		"json_schema": {`null`, `{"type":"object"}`}, "typical_p": {`1.0`, `0.5`}, "xtc_probability": {`0.0`, `0.5`}, "dry_multiplier": {`0`, `0.8`}, "mirostat": {`0`, `2`},
		"no_repeat_ngram_size": {`0`, `3`}, "input_ids": {`null`, `[1]`}, "custom_logit_processor": {`""`, `"x"`}, "watermark": {`false`, `true`}, "negative_prompt": {`""`, `"x"`},
	} {
		for _, c := range overlongBodies[:6] {
			for i, value := range values {
				body := fmt.Sprintf(`{"model":"lm",%q:%s,%s}`, field, value, fill(c.body, 2))
				w := do(f, http.MethodPost, c.path, body)
				if refused := strings.Contains(w.Body.String(), `"param":"`+field+`"`) && w.Code == http.StatusBadRequest; refused != (i == 1) {
					t.Errorf("%s %s: status %d: %.300s", c.path, body, w.Code, w.Body)
				}
			}
		}
	}
}

// TestUnknownFieldsAreLoggedOnce: a field that a path does not read is passed over, and the log says so for the path and the field once.
func TestUnknownFieldsAreLoggedOnce(t *testing.T) {
	core, logs := observer.New(zapcore.InfoLevel)
	s := clienttest.NewScheduler(say("Y", engine.FinishLength))
	f, err := New(Config{}, []registry.Model{demo(byteTokenizer{})}, client.New(client.Config{}, s, zap.NewNop()), zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	s.Deliver = f.pool.Deliver
	f.pool.Deliver(welcome(1))
	for _, body := range []string{
		`{"prompt":"a","max_tokens":1,"flavour":"x","MODEL":"demo"}`, `{"flavour":1,"prompt":[65],"max_tokens":1,"fl\u0061vour2":{"prompt":1}}`, `{"prompt":"a","max_tokens":1,"echo":true}`,
	} {
		if w := do(f, http.MethodPost, "/v1/completions", body); w.Code != http.StatusOK {
			t.Errorf("%s: status %d: %s", body, w.Code, w.Body)
		}
	}
	if w := do(f, http.MethodPost, "/tokenize", `{"prompt":"a","flavour":1}`); w.Code != http.StatusOK {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	var told []string
	for _, e := range logs.FilterMessageSnippet("does not read").All() {
		told = append(told, fmt.Sprint(e.ContextMap()["path"], " ", e.ContextMap()["field"]))
	}
	if want := []string{"/v1/completions flavour", "/v1/completions flavour2", "/tokenize flavour"}; !slices.Equal(told, want) {
		t.Errorf("told of %q, want %q", told, want)
	}
	for i := range 2 * 1024 {
		do(f, http.MethodPost, "/tokenize", fmt.Sprintf(`{"prompt":"a","field%d":1}`, i))
	}
	if n := logs.FilterMessageSnippet("does not read").Len(); n != 1024 {
		t.Errorf("%d fields are told of, of 2048; want 1024", n)
	}
}
