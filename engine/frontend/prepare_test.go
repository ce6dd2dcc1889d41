package frontend

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
)

// failingTokenizer fails on texts with an "x", and on the token of 'Z'.
type failingTokenizer struct{ byteTokenizer }

func (t failingTokenizer) Encode(ctx context.Context, salt, text string, addSpecial bool) ([]engine.TokenID, error) {
	if strings.Contains(text, "x") {
		return nil, errors.New("tokenizer: the expression gave up")
	}
	return t.byteTokenizer.Encode(ctx, salt, text, addSpecial)
}

func (t failingTokenizer) Decode(ids []engine.TokenID, skipSpecial bool) (string, error) {
	if bytes.ContainsRune(idBytes(ids), 'Z') {
		return "", errors.New("tokenizer: the decoder gave up")
	}
	return t.byteTokenizer.Decode(ids, skipSpecial)
}

func idBytes(ids []engine.TokenID) []byte {
	out := make([]byte, len(ids))
	for i, id := range ids {
		out[i] = byte(id)
	}
	return out
}

// TestTokenizerFailuresAreErrors holds that no endpoint answers what the tokenizer failed on.
func TestTokenizerFailuresAreErrors(t *testing.T) {
	for _, c := range []struct {
		path, body string
		status     int
		param, say string
	}{
		{"/v1/completions", `{"prompt":["a","axb"]}`, 400, "prompt", "expression gave up"},
		{"/v1/completions", `{"prompt":[90],"echo":true}`, 400, "prompt", "decoder gave up"},
		{"/v1/completions", `{"prompt":"a"}`, 500, "", "decoder gave up"}, // which is answered by a Z
		{"/v1/completions", `{"prompt":"a","stream":true}`, 500, "", "decoder gave up"},
		{"/v1/completions/render", `{"prompt":"x"}`, 400, "prompt", "expression gave up"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}]}`, 400, "messages", "expression gave up"},
		{"/tokenize", `{"prompt":"x"}`, 400, "prompt", "expression gave up"},
		{"/tokenize", `{"messages":[{"role":"user","content":"x"}]}`, 400, "messages", "expression gave up"},
		{"/detokenize", `{"tokens":[65,90]}`, 400, "tokens", "decoder gave up"},
	} {
		f, s := newFrontend(t, Config{}, say("YZ", engine.FinishLength))
		read(t, f, failingTokenizer{})
		w := do(f, http.MethodPost, c.path, c.body)
		var refused api.Error
		if err := json.Unmarshal(w.Body.Bytes(), &refused); err != nil || w.Code != c.status || refused.Param != c.param || !strings.Contains(refused.Message, c.say) {
			t.Errorf("%s %s: status %d, %s", c.path, c.body, w.Code, w.Body)
		}
		if submits, _ := s.Seen(); c.status == 400 && len(submits) > 0 {
			t.Errorf("%s %s was submitted", c.path, c.body)
		}
	}
}

// TestLongTextsAreCutOff holds that a text that cannot fit is refused by its length, untokenized.
func TestLongTextsAreCutOff(t *testing.T) {
	f, _ := newFrontend(t, Config{}, say("Y", engine.FinishLength)) // 128 tokens of at most 4 bytes
	read(t, f, failingTokenizer{})
	long := strings.Repeat("x", 516)
	for path, body := range map[string]string{
		"/v1/completions":      `{"prompt":["a","` + long + `"]}`,
		"/v1/chat/completions": `{"messages":[{"role":"user","content":"` + long[10:] + `"}]}`,
		"/v1/decisions":        `{"input":"` + long + `","questions":[{"type":"predicate","instructions":"a"}]}`,
		"/v1/systemone":        `{"state":"` + long + `","questions":{"a":{"type":"noul","instructions":"a"}}}`,
	} {
		w := do(f, http.MethodPost, path, body)
		for _, figure := range []string{"context_length_exceeded", "128 tokens", "at most 4 bytes", "no more than 512 bytes", "; shorten"} {
			if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), figure) {
				t.Errorf("%s: status %d, %s; want %q", path, w.Code, w.Body, figure)
			}
		}
	}
	read(t, f, byteTokenizer{})
	text := strings.Repeat("y", 516)
	w := do(f, http.MethodPost, "/v1/completions", `{"prompt":"`+text+`","truncate_prompt_tokens":5,"max_tokens":1}`)
	if w.Code != http.StatusOK {
		t.Errorf("a long text to be truncated: %d, %s", w.Code, w.Body)
	}
}

// patientTokenizer waits, on texts with a "w", until their client leaves.
type patientTokenizer struct{ byteTokenizer }

func (t patientTokenizer) Encode(ctx context.Context, salt, text string, addSpecial bool) ([]engine.TokenID, error) {
	if strings.Contains(text, "w") {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return t.byteTokenizer.Encode(ctx, salt, text, addSpecial)
}

// TestBigBodiesDoNotHoldUpSmallOnes leaves more big bodies in the tokenizer, and in its queue, than
// there are turns. Small ones are answered all the while, and the big ones end with their clients.
func TestBigBodiesDoNotHoldUpSmallOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := newFrontend(t, Config{}, say("Y", engine.FinishLength))
		read(t, f, patientTokenizer{})
		ctx, leave := context.WithCancel(t.Context())
		answered := make(chan int)
		const clients, big = 300, 64 << 10 // from which size on bodies take turns
		for range clients {
			go func() { // ends when the client leaves
				body := `{"prompt":"w","truncate_prompt_tokens":1,"padding":"` + strings.Repeat("p", big) + `"}`
				r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/completions", strings.NewReader(body))
				w := httptest.NewRecorder()
				f.Handler().ServeHTTP(w, r)
				answered <- w.Code
			}()
		}
		synctest.Wait()
		start := time.Now()
		if w := do(f, http.MethodPost, "/v1/completions", `{"prompt":"a","max_tokens":1}`); w.Code != http.StatusOK || time.Since(start) > 0 {
			t.Errorf("a small body beside big ones: status %d after %v: %s", w.Code, time.Since(start), w.Body)
		}
		leave()
		for range clients {
			if status := <-answered; status != 499 {
				t.Errorf("a client that left: status %d", status)
			}
		}
	})
}
