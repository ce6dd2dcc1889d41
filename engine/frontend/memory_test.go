package frontend

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// TestLogprobsBound holds what a request asks for to the figure that the bound counts, and that the error says it.
func TestLogprobsBound(t *testing.T) {
	for _, c := range []struct {
		name, path, body string
		asked            int
	}{
		{"echo", "/v1/completions", `{"prompt":["abc","de"],"n":3,"echo":true,"logprobs":2,"max_tokens":4}`, 3 * (4 + 3 + 2*4) * 3},
		{"prompt_logprobs", "/v1/completions", `{"prompt":"abc","prompt_logprobs":5}`, 4 * 6},
		{"labels", "/v1/completions", `{"prompt":"abc","max_tokens":2,"logprob_token_ids":[65,66]}`, 2 * 3},
		{"chat", "/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"max_tokens":7,"logprobs":true,"top_logprobs":1,"n":2}`, 2 * 7 * 2},
		{"chat without max_tokens", "/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"logprobs":true}`, 128 - len("user: a\nassistant:")},
		{"none", "/v1/completions", `{"prompt":"abc","max_tokens":100,"n":100}`, 0},
	} {
		for _, limit := range []int{max(c.asked, 1), c.asked - 1} {
			f, s := newFrontend(t, Config{MaxLogprobs: limit}, say("Y", engine.FinishStop))
			w := do(f, http.MethodPost, c.path, c.body)
			submits, _ := s.Seen()
			if limit < 0 {
				continue // nothing is within less than nothing
			}
			if want := limit >= c.asked; want != (w.Code == http.StatusOK) || want != (len(submits) > 0) {
				t.Errorf("%s: with a limit of %d: %d %s", c.name, limit, w.Code, w.Body)
			} else if says := w.Body.String(); !want && !(strings.Contains(says, fmt.Sprintf("ask for %d ", c.asked)) && strings.Contains(says, fmt.Sprintf("may ask for %d;", limit))) {
				t.Errorf("%s: %s", c.name, says)
			}
		}
	}
}

// TestLogprobsHeld holds that requests which together would take too much are put off, and not for longer
// than that.
func TestLogprobsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := newFrontend(t, Config{MaxLogprobs: 10}, nil)
		const alone = 3 // of the greatest size may one address have open, of the four that all may
		const body = `{"prompt":"abcd","prompt_logprobs":1,"max_tokens":0}`
		for range alone {
			start(f, newPost(body))
		}
		synctest.Wait()
		w := do(f, http.MethodPost, "/v1/completions", body)
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), "your requests hold 30 of the 30 that they may") {
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
		submits, _ := s.Seen()
		for _, j := range submits {
			f.pool.Deliver(replies(j, nil)[0])
		}
		synctest.Wait()
		s.Answer = func(j *wire.Submit) []*wire.Result { return replies(j, nil) }
		for range 3 * alone { // none is counted for longer
			if w := do(f, http.MethodPost, "/v1/completions", body); w.Code != http.StatusOK {
				t.Errorf("when they are answered: %d %s", w.Code, w.Body)
			}
		}
	})
}

// TestLongAnswers holds that an answer that goes out in pieces is whole, as one body and as a stream.
func TestLongAnswers(t *testing.T) {
	f, _ := newFrontend(t, Config{}, say("answer", engine.FinishLength))
	address, stop := serveProxy(t, f)
	const choices = 64
	request := fmt.Sprintf(`{"prompt":%q,"n":%d,"echo":true,"logprobs":20,"max_tokens":6}`, strings.Repeat("p", 100), choices)
	response, body := exchangeRaw(t, address, head(len(request))+request, false)
	if !slices.Equal(response.TransferEncoding, []string{"chunked"}) || len(body) < 1<<20 {
		t.Errorf("%d bytes as %v", len(body), response.TransferEncoding)
	}
	wantChoices(t, []string{body}, choices)

	request = strings.Replace(request, `{`, `{"stream":true,`, 1)
	_, body = exchangeRaw(t, address, strings.Replace(head(len(request)), "Host", "Connection: close\r\nHost", 1)+request, false)
	events := strings.Split(strings.TrimSuffix(body, "\n\ndata: [DONE]\n\n"), "\n\n")
	for i := range events {
		events[i] = strings.TrimPrefix(events[i], "data: ")
	}
	wantChoices(t, events, choices)

	request = fmt.Sprintf(`{"prompt":%q,"return_token_strs":true}`, strings.Repeat("p\"", 50_000))
	_, body = exchangeRaw(t, address, strings.Replace(head(len(request)), "/v1/completions", "/tokenize", 1)+request, false)
	var tokenized struct {
		Count  int
		Tokens []int
		Texts  []string `json:"token_strs"`
	}
	if err := json.Unmarshal([]byte(body), &tokenized); err != nil || tokenized.Count != 100_001 || len(tokenized.Tokens) != 100_001 || len(tokenized.Texts) != 100_001 || tokenized.Texts[2] != `"` {
		t.Errorf("/tokenize: %d tokens, %d texts, %v", len(tokenized.Tokens), len(tokenized.Texts), err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// wantChoices adds up what the choices of some answers have: 101 prompt tokens and 6 generated ones each.
func wantChoices(t *testing.T, answers []string, choices int) {
	t.Helper()
	texts, lists := make([]string, choices), make([]int, choices)
	for _, text := range answers {
		var answer struct {
			Choices []struct {
				Index    int
				Text     string
				Logprobs struct {
					Tokens []string
					Top    []map[string]float64 `json:"top_logprobs"`
				}
			}
		}
		if err := json.Unmarshal([]byte(text), &answer); err != nil {
			t.Fatal(err)
		}
		for _, c := range answer.Choices {
			texts[c.Index] += c.Text
			lists[c.Index] += len(c.Logprobs.Tokens)
			for i, top := range c.Logprobs.Top {
				if len(c.Logprobs.Top) != len(c.Logprobs.Tokens) || len(top) < 20 && !(i == 0 && top == nil) {
					t.Fatalf("choice %d: position %d has %d logprobs", c.Index, i, len(top))
				}
			}
		}
	}
	for i := range texts {
		if texts[i] != strings.Repeat("p", 100)+"answer" || lists[i] != 107 {
			t.Fatalf("choice %d: %d tokens, text %q", i, lists[i], texts[i])
		}
	}
}
