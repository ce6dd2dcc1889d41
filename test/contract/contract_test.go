// Package contract holds the HTTP frontend to OpenAI's own Go client, unmodified. It is a module of
// its own, so that the client is no dependency of the server.
package contract

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/apikey"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/frontend"
	"github.com/prefillonly/prefillonly/engine/frontend/registry"
	"github.com/prefillonly/prefillonly/engine/text"
	"github.com/prefillonly/prefillonly/engine/tokenizer"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// models are those of the pool.
var models = []string{"demo", "org/other"}

// scheduler answers every job at once with the bytes of "Yes, or no" and a made-up distribution.
type scheduler struct {
	inbox chan wire.Message

	mu    sync.Mutex
	users []string
	busy  int // refuse so many jobs before answering one
}

func (s *scheduler) Recv(ctx context.Context) (wire.Message, error) {
	select {
	case m := <-s.inbox:
		return m, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *scheduler) Send(msg wire.Message) error {
	switch m := msg.(type) {
	case *wire.Hello:
		welcome := &wire.Welcome{Epoch: 1, Models: 1}
		for _, name := range models {
			welcome.Served = append(welcome.Served, wire.Served{
				Name: name, State: wire.ModelReady, Executors: 1, Loaded: 1, Tokens: &wire.TokenLimits{MaxModelLen: 256, VocabSize: 258},
			})
		}
		s.inbox <- welcome
	case *wire.Submit:
		s.answer(m)
	}
	return nil
}

func (s *scheduler) answer(m *wire.Submit) {
	s.mu.Lock()
	s.users = append(s.users, m.User)
	refuse := s.busy > 0
	s.busy--
	s.mu.Unlock()
	if refuse {
		s.inbox <- &wire.Result{Job: m.ID, Err: &engine.Error{Code: engine.CodeOverloaded, Message: "the queue is full", RetryAfter: 1}}
		return
	}
	text, work := "Yes, or no", m.Work.(*engine.Tokens)
	for i := range min(work.Max, len(text)) {
		a := &engine.Answer{Token: engine.TokenID(text[i]), Logprob: -0.5}
		for k := range work.Ask.Top {
			a.Top = append(a.Top, engine.TokenLogprob{ID: engine.TokenID(text[i]) + engine.TokenID(k), Logprob: -0.5 - float32(k)})
		}
		r := &wire.Result{Job: m.ID, Output: &engine.TokenOutput{Index: i, Answer: a, Cached: 2}}
		if i+1 == min(work.Max, len(text)) {
			r.Finish = engine.FinishLength
		}
		s.inbox <- r
	}
}

// chat renders each message as a line.
type chat struct{}

func (chat) RenderChat(messages []byte, _ text.ChatOptions) (string, error) {
	var list []struct{ Role, Content string }
	err := json.Unmarshal(messages, &list)
	var b strings.Builder
	for _, m := range list {
		b.WriteString(m.Role + ": " + m.Content + "\n")
	}
	return b.String(), err
}

func (chat) TokenizerInfo() map[string]json.RawMessage { return nil }

func start(t *testing.T) (openai.Client, *scheduler) {
	t.Helper()
	s := &scheduler{inbox: make(chan wire.Message, 1000)}
	keys, err := apikey.NewRing([]string{"key"}, "", apikey.IsolateKeys)
	if err != nil {
		t.Fatal(err)
	}
	pool := client.New(client.Config{}, s, zap.NewNop())
	var all []registry.Model
	for _, name := range models {
		all = append(all, registry.Model{Name: name, Open: func() (*text.Text, error) {
			return &text.Text{Tokenizer: tokenizer.NewBytes(), Template: chat{}}, nil
		}})
	}
	f, err := frontend.New(frontend.Config{Keys: keys}, all, pool, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() {
		served <- pool.Serve(ctx, func(ctx context.Context) error { return f.Serve(ctx, listener) })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	awaitReady(t, "http://"+listener.Addr().String())
	return openai.NewClient(option.WithBaseURL("http://"+listener.Addr().String()+"/v1"), option.WithAPIKey("key")), s
}

// awaitReady waits until the server has heard of its executor, and so of the model's limits.
func awaitReady(t *testing.T, address string) {
	t.Helper()
	for range 6000 {
		response, err := http.Get(address + "/ready")
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the server is not ready after a minute")
}

func TestCompletion(t *testing.T) {
	client, s := start(t)
	got, err := client.Completions.New(t.Context(), openai.CompletionNewParams{
		Model:     "demo",
		Prompt:    openai.CompletionNewParamsPromptUnion{OfArrayOfTokens: []int64{72, 105}},
		MaxTokens: openai.Int(3),
		Logprobs:  openai.Int(2),
		User:      openai.String("alice"),
	})
	if err != nil {
		t.Fatal(err)
	}
	choice := got.Choices[0]
	if choice.Text != "Yes" || choice.FinishReason != "length" || len(choice.Logprobs.TokenLogprobs) != 3 || choice.Logprobs.TopLogprobs[0]["Y"] != -0.5 {
		t.Errorf("choice %+v", choice)
	}
	if got.Usage.PromptTokens != 2 || got.Usage.CompletionTokens != 3 || got.Usage.PromptTokensDetails.CachedTokens != 2 {
		t.Errorf("usage %+v", got.Usage)
	}
	for _, user := range []string{"bob", "alice"} {
		if _, err := client.Completions.New(t.Context(), openai.CompletionNewParams{
			Model: "demo", Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("Hi")}, MaxTokens: openai.Int(3), User: openai.String(user),
		}); err != nil {
			t.Fatal(err)
		}
	}
	// Users are the key's own, whom no other key can name, and whom nobody can read in events; the same one is the same again.
	if alice, bob := s.users[0], s.users[1]; s.users[2] != alice || alice == bob || !digest.MatchString(alice) || !digest.MatchString(bob) {
		t.Errorf("users %q", s.users)
	}
}

// digest is a name of a user of a key's own.
var digest = regexp.MustCompile(`^[0-9a-f]{32}$`)

func TestCompletionStream(t *testing.T) {
	client, _ := start(t)
	stream := client.Completions.NewStreaming(t.Context(), openai.CompletionNewParams{
		Model:         "demo",
		Prompt:        openai.CompletionNewParamsPromptUnion{OfString: openai.String("Hi")},
		MaxTokens:     openai.Int(8),
		Stop:          openai.CompletionNewParamsStopUnion{OfStringArray: []string{"or"}},
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
	})
	text, tokens := "", int64(0)
	for stream.Next() {
		event := stream.Current()
		for _, choice := range event.Choices {
			text += choice.Text
		}
		tokens += event.Usage.CompletionTokens
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if text != "Yes, " || tokens != 7 {
		t.Errorf("text %q, %d tokens", text, tokens)
	}
}

func chatParams() openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:               "demo",
		Messages:            []openai.ChatCompletionMessageParamUnion{openai.SystemMessage("Answer."), openai.UserMessage("Hi?")},
		MaxCompletionTokens: openai.Int(3),
	}
}

func TestChat(t *testing.T) {
	client, _ := start(t)
	params := chatParams()
	params.Logprobs, params.TopLogprobs, params.N = openai.Bool(true), openai.Int(2), openai.Int(2)
	got, err := client.Chat.Completions.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Choices) != 2 || got.Choices[1].Index != 1 || got.Choices[1].Message.Content != "Yes" || got.Choices[0].Message.Role != "assistant" {
		t.Errorf("choices %+v", got.Choices)
	}
	first := got.Choices[0].Logprobs.Content[0]
	if first.Token != "Y" || first.Logprob != -0.5 || len(first.TopLogprobs) != 2 || first.TopLogprobs[1].Token != "Z" || first.Bytes[0] != 'Y' {
		t.Errorf("logprobs %+v", first)
	}
}

func TestChatStream(t *testing.T) {
	client, _ := start(t)
	stream := client.Chat.Completions.NewStreaming(t.Context(), chatParams())
	var whole openai.ChatCompletionAccumulator
	for stream.Next() {
		if !whole.AddChunk(stream.Current()) {
			t.Fatalf("the accumulator refuses %+v", stream.Current())
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if c := whole.Choices[0]; c.Message.Content != "Yes" || c.Message.Role != "assistant" || c.FinishReason != "length" {
		t.Errorf("choice %+v", c)
	}
}

func TestModels(t *testing.T) {
	client, _ := start(t)
	list, err := client.Models.List(t.Context())
	if err != nil || len(list.Data) != 2 || list.Data[0].ID != "demo" {
		t.Errorf("models %+v, %v", list, err)
	}
	for _, name := range models {
		model, err := client.Models.Get(t.Context(), name)
		if err != nil || model.ID != name || model.OwnedBy != "prefillonly" || model.JSON.ExtraFields["state"].Raw() != `"ready"` {
			t.Errorf("model %+v, %v", model, err)
		}
		answer, err := client.Completions.New(t.Context(), openai.CompletionNewParams{
			Model: openai.CompletionNewParamsModel(name), Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("Hi")},
		})
		if err != nil || answer.Model != name {
			t.Errorf("%s: answer %+v, %v", name, answer, err)
		}
	}
}

func TestErrorsReachTheClient(t *testing.T) {
	client, _ := start(t)
	request := func(prompt, model string, options ...option.RequestOption) *openai.Error {
		_, err := client.Completions.New(t.Context(), openai.CompletionNewParams{
			Model: openai.CompletionNewParamsModel(model), Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String(prompt)},
		}, options...)
		var refused *openai.Error
		if !errors.As(err, &refused) {
			t.Fatalf("error %v", err)
		}
		return refused
	}
	if e := request(strings.Repeat("x", 300), "demo"); e.StatusCode != 400 || e.Code != "context_length_exceeded" || e.Param != "prompt" || !strings.Contains(e.Message, "300 bytes") {
		t.Errorf("too long: %+v", e)
	}
	if e := request("x", "gpt-4"); e.StatusCode != 404 || e.Code != "model_not_found" || e.Type != "not_found_error" {
		t.Errorf("unknown model: %+v", e)
	}
	if e := request("x", "demo", option.WithAPIKey("wrong")); e.StatusCode != 401 || e.Code != "invalid_api_key" {
		t.Errorf("wrong key: %+v", e)
	}
}

// TestRetries holds that the client comes back after a 429 as Retry-After says, and then succeeds.
func TestRetries(t *testing.T) {
	client, s := start(t)
	s.busy = 2
	if _, err := client.Chat.Completions.New(t.Context(), chatParams(), option.WithMaxRetries(2)); err != nil {
		t.Error(err)
	}
	if len(s.users) != 3 {
		t.Errorf("%d tries", len(s.users))
	}
}
