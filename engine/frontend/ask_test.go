package frontend

import (
	"context"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api/completions"
)

// spaceTokenizer has one token for a word of one letter and the space before it.
type spaceTokenizer struct{ byteTokenizer }

func (t spaceTokenizer) Encode(ctx context.Context, salt, text string, addSpecial bool) ([]engine.TokenID, error) {
	if len(text) == 2 && text[0] == ' ' {
		return []engine.TokenID{engine.TokenID(text[1] - 'a')}, nil
	}
	return t.byteTokenizer.Encode(ctx, salt, text, addSpecial)
}

// TestNarrowedAsk holds what the fields that narrow the choice ask of an executor.
func TestNarrowedAsk(t *testing.T) {
	f, s := newFrontend(t, Config{}, say("Y", engine.FinishLength))
	read(t, f, spaceTokenizer{})
	var answer completions.Completion
	post(t, f, "/v1/completions", `{"prompt":"a","max_tokens":9,"top_k":7,"min_p":0.25,"temperature":0.5,"bad_words":["no"," d","d","no"],
		"min_tokens":3,"stop_token_ids":[5],"ignore_eos":true}`, &answer)
	submits, _ := s.Seen()
	ask := tokens(submits[0]).Ask
	if ask.TopK != 7 || ask.MinP != 0.25 || ask.Temperature != 0.5 {
		t.Errorf("asked %+v", ask)
	}
	want := []engine.Ban{
		{Tokens: []engine.TokenID{'n', 'o'}}, // " no" has more tokens, and its last is the same
		{Tokens: []engine.TokenID{'d'}}, {Tokens: []engine.TokenID{'d' - 'a'}},
		{Tokens: []engine.TokenID{'d'}}, {Tokens: []engine.TokenID{'d' - 'a'}},
		{Tokens: []engine.TokenID{5}, Before: 3}, {Tokens: []engine.TokenID{tokenEOS}, Before: 3},
	}
	if !reflect.DeepEqual(ask.Bans, want) {
		t.Errorf("bans %v, want %v", ask.Bans, want)
	}
}

// TestEchoAlone holds that a job asks for something even where the client wants its prompt back alone.
func TestEchoAlone(t *testing.T) {
	f, s := newFrontend(t, Config{}, say("Y", engine.FinishLength))
	var answer completions.Completion
	post(t, f, "/v1/completions", `{"prompt":"ab","max_tokens":0,"echo":true}`, &answer)
	submits, _ := s.Seen()
	if !tokens(submits[0]).Ask.PromptLogprobs || answer.Choices.Items[0].Text != "ab" || answer.Choices.Items[0].Logprobs != nil {
		t.Errorf("asked %+v, answered %+v", tokens(submits[0]).Ask, answer.Choices)
	}
}

func TestTooManyBadWords(t *testing.T) {
	f, _ := newFrontend(t, Config{}, say("Y", engine.FinishLength))
	read(t, f, spaceTokenizer{})
	words := make([]string, 65)
	for i := range words {
		words[i] = `"` + strings.Repeat(" ", i) + `b"`
	}
	w := do(f, http.MethodPost, "/v1/completions", `{"prompt":"a","bad_words":[`+strings.Join(words, ",")+`]}`)
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "more than 128 sequences") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	w = do(f, http.MethodPost, "/v1/completions", `{"prompt":"a","bad_words":["a","  "]}`)
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "string 1 has no tokens") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

// TestDefaultMaxTokens holds the bound of answers whose request gives none.
func TestDefaultMaxTokens(t *testing.T) {
	for _, c := range []struct {
		setting    int
		path, body string
		want       int
	}{
		{5, "/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}]}`, 5},
		{5, "/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"max_tokens":7}`, 7},
		{5, "/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"max_completion_tokens":8}`, 8},
		{5, "/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"min_tokens":9}`, 9},
		{500, "/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}]}`, 128 - len("user: a\nassistant:")},
		{0, "/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}]}`, 128 - len("user: a\nassistant:")},
		{5, "/v1/completions", `{"prompt":"a"}`, completions.DefaultMaxTokens},
		{5, "/v1/completions", `{"prompt":"a","min_tokens":20}`, 20},
	} {
		f, s := newFrontend(t, Config{DefaultMaxTokens: c.setting}, say("Y", engine.FinishLength))
		w := do(f, http.MethodPost, c.path, c.body)
		submits, _ := s.Seen()
		if w.Code != http.StatusOK || tokens(submits[0]).Max != c.want {
			t.Errorf("%d, %s: status %d, %+v, want %d tokens", c.setting, c.body, w.Code, submits, c.want)
		}
		models := do(f, http.MethodGet, "/v1/models", "").Body.String()
		if c.setting == 5 && !strings.Contains(models, `"default_max_tokens":5`) {
			t.Errorf("models: %s", models)
		}
	}
}
