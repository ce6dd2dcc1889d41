package completion

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/completions"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/client/clienttest"
	"github.com/prefillonly/prefillonly/engine/request"
	"github.com/prefillonly/prefillonly/engine/text"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// bytesTokenizer has a token for each byte, and one at the end of answers.
type bytesTokenizer struct{}

func (bytesTokenizer) Encode(_ context.Context, _, text string, _ bool) ([]engine.TokenID, error) {
	ids := make([]engine.TokenID, len(text))
	for i := range len(text) {
		ids[i] = engine.TokenID(text[i])
	}
	return ids, nil
}

func (t bytesTokenizer) Decode(ids []engine.TokenID, _ bool) (string, error) {
	var b strings.Builder
	for _, id := range ids {
		b.Write(t.TokenBytes(id))
	}
	return b.String(), nil
}
func (bytesTokenizer) TokenBytes(id engine.TokenID) []byte { return []byte{byte(id)} }
func (bytesTokenizer) BytesPerToken() int                  { return 1 }
func (bytesTokenizer) VocabSize() int                      { return 257 }
func (bytesTokenizer) EOS() []engine.TokenID               { return []engine.TokenID{256} }

// newService makes one over a pool whose "demo" answers "ab" to every prompt.
func newService(t *testing.T) (*Service, *client.Client) {
	t.Helper()
	s := clienttest.NewScheduler(func(s *wire.Submit) []*wire.Result {
		last := clienttest.Token(s.ID, 1, 'b', engine.FinishLength)
		return []*wire.Result{clienttest.Token(s.ID, 0, 'a', engine.FinishNone), last}
	})
	pool := client.New(client.Config{MaxJobs: 4}, s, zap.NewNop())
	s.Deliver = pool.Deliver
	pool.Deliver(clienttest.Welcome(1, 256))
	return New(Config{MaxLogprobs: 100}), pool
}

func open(t *testing.T, s *Service, pool *client.Client, body string) *Call {
	t.Helper()
	asked, refused := completions.DecodeCompletion([]byte(body))
	if refused != nil {
		t.Fatal(refused)
	}
	text := &text.Text{Tokenizer: bytesTokenizer{}}
	c, err := s.Completion(t.Context(), text, request.New(pool, request.Origin{ID: "7", Arrived: time.Unix(9, 0), Model: "demo", Named: asked.Model}), asked)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCall runs a call from a decoded body to its answer, as whoever brings requests does.
func TestCall(t *testing.T) {
	s, pool := newService(t)
	c := open(t, s, pool, `{"model":"Demo","prompt":["x","yz"],"max_tokens":2}`)
	if err := c.Admit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Submit(); err != nil {
		t.Fatal(err)
	}
	for !c.Done() {
		if fresh, err := c.Next(t.Context()); err != nil || fresh != nil {
			t.Fatalf("news %v for a stream that nobody asked for, %v", fresh, err)
		}
	}
	const want = `{"id":"cmpl-7","object":"text_completion","created":9,"model":"Demo","choices":[` +
		`{"index":0,"text":"ab","logprobs":null,"finish_reason":"length","stop_reason":null},{"index":1,"text":"ab","logprobs":null,"finish_reason":"length","stop_reason":null}],` +
		`"usage":{"prompt_tokens":3,"total_tokens":7,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":0}}}`
	if got := string(c.Answer().AppendJSON(nil, nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	c.Close()
	if r, tokens := c.Record, c.Record.Tokens; r.Jobs != 2 || tokens.Prompt != 3 || tokens.Completion != 4 || r.Finish != "length" || tokens.First.IsZero() {
		t.Errorf("record %+v, tokens %+v", r, tokens)
	}
	if n, _ := pool.Jobs(); n != 0 {
		t.Errorf("%d jobs are open", n)
	}
}

// TestListsTimesJobsAreBounded: lists that each is as long as it may be are refused where as many jobs as there may be bring them.
func TestListsTimesJobsAreBounded(t *testing.T) {
	s, pool := newService(t)
	prompts := strings.Repeat(`"x",`, maxJobs-1) + `"x"`
	for listed, refused := range map[int]bool{2000: false, 2049: true} {
		ids := strings.Repeat("7,", listed-1) + "7"
		for field, value := range map[string]string{"stop_token_ids": "[" + ids + "]", "logprob_token_ids": "[" + ids + "]", "allowed_token_ids": "[" + ids + "]"} {
			err := open(t, s, pool, fmt.Sprintf(`{"prompt":[%s],%q:%s,"max_tokens":1}`, prompts, field, value)).Admit(t.Context())
			var wrong *api.Error
			if got := errors.As(err, &wrong) && strings.Contains(wrong.Message, "one request may have 8388608"); got != refused {
				t.Errorf("%d of %s: %v", listed, field, err)
			}
		}
	}
}

// TestPromptsTimesNAreBounded: as many prompts and choices as there may be of each are refused together.
func TestPromptsTimesNAreBounded(t *testing.T) {
	s, pool := newService(t)
	for prompts, refused := range map[int]bool{32: false, 33: true} {
		err := open(t, s, pool, fmt.Sprintf(`{"prompt":[%s"x"],"n":128,"max_tokens":1}`, strings.Repeat(`"x",`, prompts-1))).Admit(t.Context())
		var wrong *api.Error
		if got := errors.As(err, &wrong) && strings.Contains(wrong.Message, "one request may have 4096 answers"); got != refused {
			t.Errorf("%d prompts: %v", prompts, err)
		}
	}
}

// TestErrorsNameFieldAndCode holds the kinds of error, which shells map to their own.
func TestErrorsNameFieldAndCode(t *testing.T) {
	s, pool := newService(t)
	for _, c := range []struct {
		body, field, says string
		code              engine.Code // 0: an *api.Error
	}{
		{`{"prompt":[256]}`, "prompt", "prompt has token id 256; the model's vocabulary has 256 tokens", 0},
		{`{"prompt":"x","max_tokens":1,"bad_words":["ÿ"]}`, "", "", 0},
		{`{"prompt":"x","max_tokens":200}`, "prompt", "holds 128 tokens; prompt 0 has 1 and 200 more", engine.CodeTooLong},
		{`{"prompt":"x","prompt_logprobs":5,"max_tokens":128,"logprobs":1}`, "prompt", "holds 128 tokens", engine.CodeTooLong},
		{`{"prompt":"x","max_tokens":51,"logprobs":1}`, "logprobs", "one request may ask for 100", 0},
		{`{"prompt":["a","b","c","d","e"],"max_tokens":1}`, "", "may have 4", engine.CodeBadTokens},
	} {
		call := open(t, s, pool, c.body)
		err := call.Admit(t.Context())
		if err == nil {
			err = call.Submit()
		}
		call.Close()
		var wrong *api.Error
		var field *request.FieldError
		var failed *engine.Error
		switch {
		case c.says == "" && err == nil:
		case c.code == 0 && errors.As(err, &wrong) && wrong.Param == c.field && strings.Contains(wrong.Message, c.says):
		case c.code > 0 && errors.As(err, &failed) && failed.Code == c.code && strings.Contains(err.Error(), c.says) && errors.As(err, &field) == (c.field != ""):
		default:
			t.Errorf("%s: %v, want %v of %q that says %q", c.body, err, c.code, c.field, c.says)
		}
	}
	if held := s.logprobs.Held(); held != 0 {
		t.Errorf("%d log-probabilities are still counted", held)
	}
}

// ended is a template that writes what follows the last message.
type ended struct{ text.Template }

func (ended) RenderChat(messages []byte, _ text.ChatOptions) (string, error) {
	return strings.TrimSuffix(strings.TrimPrefix(string(messages), `[{"role":"user","content":"`), `"}]`) + "<answer>", nil
}

// TestTruncatedChat: a chat is cut at its beginning, but not down to what the template writes behind its last message.
func TestTruncatedChat(t *testing.T) {
	s, pool := newService(t)
	text := &text.Text{Tokenizer: bytesTokenizer{}, Template: ended{}}
	for keep, want := range map[string]string{"1": "last 8 leave no room for text", "8": "truncate to 9 or more", "9": "", "99": "", "-1": ""} {
		asked, refused := completions.DecodeChat([]byte(`{"messages":[{"role":"user","content":"hello"}],"max_tokens":1,"truncate_prompt_tokens":` + keep + `}`))
		if refused != nil {
			t.Fatal(refused)
		}
		c, err := s.Chat(t.Context(), text, request.New(pool, request.Origin{ID: "7", Model: "demo"}), asked)
		if err == nil {
			err = c.Admit(t.Context())
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("truncated to %s: %v, want %q", keep, err, want)
		}
	}
}
