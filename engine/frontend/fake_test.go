package frontend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/client/clienttest"
	"github.com/prefillonly/prefillonly/engine/frontend/registry"
	"github.com/prefillonly/prefillonly/engine/text"
	"github.com/prefillonly/prefillonly/engine/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Tokens of byteTokenizer beyond the bytes.
const (
	tokenBOS = 256 + iota
	tokenEOS
	tokenSmile // "😀" in one token
	tokenTwin  // "A", as token 65 is
	byteVocab
)

// byteTokenizer has a token for each byte, so characters of several bytes span tokens.
type byteTokenizer struct{}

func (byteTokenizer) Encode(_ context.Context, salt, text string, addSpecial bool) ([]engine.TokenID, error) {
	var ids []engine.TokenID
	if addSpecial {
		ids = append(ids, tokenBOS)
	}
	return append(ids, byteIDs(text)...), nil
}

func byteIDs(text string) []engine.TokenID {
	ids := make([]engine.TokenID, len(text))
	for i := range len(text) {
		ids[i] = engine.TokenID(text[i])
	}
	return ids
}

func (t byteTokenizer) Decode(ids []engine.TokenID, skipSpecial bool) (string, error) {
	var out []byte
	for _, id := range ids {
		if id == tokenBOS || id == tokenEOS {
			if skipSpecial {
				continue
			}
		}
		out = append(out, t.TokenBytes(id)...)
	}
	return strings.ToValidUTF8(string(out), "\uFFFD"), nil
}

func (byteTokenizer) TokenBytes(id engine.TokenID) []byte {
	switch id {
	case tokenBOS:
		return []byte("<s>")
	case tokenEOS:
		return []byte("</s>")
	case tokenSmile:
		return []byte("😀")
	case tokenTwin:
		return []byte("A")
	}
	return []byte{byte(id)}
}

func (byteTokenizer) BytesPerToken() int    { return len("</s>") }
func (byteTokenizer) VocabSize() int        { return byteVocab }
func (byteTokenizer) EOS() []engine.TokenID { return []engine.TokenID{tokenEOS} }

// lineTemplate writes each message as "role: content\n".
type lineTemplate struct{}

func (lineTemplate) RenderChat(messages []byte, o text.ChatOptions) (string, error) {
	var list []struct{ Role, Content string }
	if err := json.Unmarshal(messages, &list); err != nil {
		return "", err
	}
	var b strings.Builder
	for _, m := range list {
		if m.Role == "robot" {
			return "", errors.New("unknown role robot")
		}
		fmt.Fprintf(&b, "%s: %s\n", m.Role, m.Content)
	}
	if o.AddGenerationPrompt {
		b.WriteString("assistant:")
	}
	if o.ContinueFinalMessage {
		return strings.TrimSuffix(b.String(), "\n"), nil
	}
	return b.String(), nil
}

func (lineTemplate) TokenizerInfo() map[string]json.RawMessage {
	return map[string]json.RawMessage{"eos_token": json.RawMessage(`"</s>"`), "tokenizer_class": json.RawMessage(`"ByteTokenizer"`)}
}

// say makes an answer function that generates text token by token, with its distribution.
func say(text string, end engine.Finish) func(*wire.Submit) []*wire.Result {
	return func(s *wire.Submit) []*wire.Result {
		ids := byteIDs(text)
		if end == engine.FinishStop {
			ids = append(ids, tokenEOS)
		}
		return replies(s, ids)
	}
}

// replies generates ids, as many as s asks for, with made-up but consistent logprobs.
func replies(s *wire.Submit, ids []engine.TokenID) []*wire.Result {
	var out []*wire.Result
	work := tokens(s)
	for i, id := range ids[:min(len(ids), work.Max)] {
		r := &wire.Result{Job: s.ID, Output: &engine.TokenOutput{Index: i, Answer: distribution(work, id, i)}}
		switch {
		case slices.Contains(work.Stop, id):
			r.Finish = engine.FinishStop
		case i+1 == work.Max || i+1 == len(ids):
			r.Finish = engine.FinishLength
		}
		out = append(out, r)
		if r.Finish == engine.FinishStop {
			break
		}
	}
	if work.Max == 0 {
		out = []*wire.Result{{Job: s.ID, Output: &engine.TokenOutput{}, Finish: engine.FinishLength}}
	}
	if work.Ask.PromptLogprobs {
		outputOf(out[0]).Prompt = scores(work)
	}
	outputOf(out[0]).Cached = len(work.IDs) / 2
	return out
}

func distribution(s *engine.Tokens, id engine.TokenID, i int) *engine.Answer {
	a := &engine.Answer{Token: id, Logprob: -0.25 - float32(i)}
	for k := range s.Ask.Top {
		a.Top = append(a.Top, engine.TokenLogprob{ID: (id + engine.TokenID(k)) % byteVocab, Logprob: -0.25 - float32(i+k)})
	}
	for _, label := range s.Ask.Labels {
		a.Labels = append(a.Labels, engine.TokenLogprob{ID: label, Logprob: -float32(label) / 8})
	}
	return a
}

// scores finds the prompt's token likeliest at even positions.
func scores(s *engine.Tokens) []engine.PromptScore {
	var out []engine.PromptScore
	for i, id := range s.IDs[1:] {
		p := engine.PromptScore{Logprob: -0.1 * float32(i+1), Rank: 40}
		for k := range s.Ask.PromptTop {
			if i%2 == 0 {
				p.Top = append(p.Top, engine.TokenLogprob{ID: (id + engine.TokenID(k)) % byteVocab, Logprob: p.Logprob - float32(k)})
			} else {
				p.Top = append(p.Top, engine.TokenLogprob{ID: (id + 1 + engine.TokenID(k)) % byteVocab, Logprob: p.Logprob + 0.05 - float32(k)})
			}
		}
		out = append(out, p)
	}
	return out
}

func welcome(epoch uint64) *wire.Welcome { return clienttest.Welcome(epoch, byteVocab) }

var token = clienttest.Token

// newFrontend makes a Frontend with a scheduler that has said Welcome.
func newFrontend(t testing.TB, cfg Config, answer func(*wire.Submit) []*wire.Result) (*Frontend, *clienttest.Scheduler) {
	t.Helper()
	return newFrontendPool(t, cfg, client.Config{}, answer)
}

func newFrontendPool(t testing.TB, cfg Config, pool client.Config, answer func(*wire.Submit) []*wire.Result) (*Frontend, *clienttest.Scheduler) {
	t.Helper()
	f, s := newUnwelcomed(t, cfg, pool, answer)
	f.pool.Deliver(welcome(1))
	return f, s
}

// newUnwelcomed makes one with a scheduler that has not been heard of.
func newUnwelcomed(t testing.TB, cfg Config, pool client.Config, answer func(*wire.Submit) []*wire.Result) (*Frontend, *clienttest.Scheduler) {
	t.Helper()
	s := clienttest.NewScheduler(answer)
	f := newFrontendOn(t, cfg, pool, s)
	s.Deliver = f.pool.Deliver
	return f, s
}

// newFrontendOn makes one of "demo", which is "alias" too.
func newFrontendOn(t testing.TB, cfg Config, pool client.Config, conn client.Conn) *Frontend {
	t.Helper()
	f, err := New(cfg, []registry.Model{demo(byteTokenizer{})}, client.New(pool, conn, zap.NewNop()), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func demo(tok text.Tokenizer) registry.Model {
	return registry.Model{Name: "demo", Names: []string{"alias"}, TextKey: fmt.Sprintf("%T", tok), Open: func() (*text.Text, error) {
		return &text.Text{Tokenizer: tok, Template: lineTemplate{}}, nil
	}}
}

// read has f read the texts of "demo" with another tokenizer.
func read(t testing.TB, f *Frontend, tok text.Tokenizer) {
	t.Helper()
	if err := f.SetModels([]registry.Model{demo(tok)}); err != nil {
		t.Fatal(err)
	}
}

// tokens is what a Submit asks, and outputOf what a Result brings.
func tokens(s *wire.Submit) *engine.Tokens        { return s.Work.(*engine.Tokens) }
func outputOf(r *wire.Result) *engine.TokenOutput { return r.Output.(*engine.TokenOutput) }

func openJobs(f *Frontend) int {
	open, _ := f.pool.Jobs()
	return open
}

// do sends one request in memory.
func do(f *Frontend, method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	f.Handler().ServeHTTP(w, r)
	return w
}

// decodeBody reads a JSON answer.
func decodeBody(t *testing.T, r io.Reader, into any) {
	t.Helper()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
}

func post(t *testing.T, f *Frontend, path, body string, into any) {
	t.Helper()
	w := do(f, http.MethodPost, path, body)
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	decodeBody(t, w.Body, into)
}
