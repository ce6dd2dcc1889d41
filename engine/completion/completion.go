// Package completion answers completion and chat requests: it makes jobs of the pool of a decoded request, and of
// their results the answer, whole or as the events of a stream. It knows no HTTP.
package completion

import (
	"context"
	"fmt"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/completions"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/internal/budget"
)

// Config is how requests are answered.
type Config struct {
	MaxLogprobs      int // log-probabilities that one request may ask for
	DefaultMaxTokens int // most tokens of a chat answer whose request gives no bound; 0: the context

	Metrics bool // answers tell the times of their requests

	ToolParser string // the name of package toolcalls' by which calls are found where the model chooses; empty: they are refused
}

// Service answers requests by jobs of a pool. Its methods are safe for concurrent use.
type Service struct {
	// set once
	cfg  Config
	pool *client.Client

	logprobs *budget.Budget
}

// New makes a Service.
func New(cfg Config, pool *client.Client) *Service {
	return &Service{cfg: cfg, pool: pool, logprobs: budget.New(budgetRequests * int64(cfg.MaxLogprobs))}
}

// Origin is what is known of a request beside its body.
type Origin struct {
	ID       string // of the answer, behind the API's prefix
	Arrived  time.Time
	Model    string // the pool's name of the model that the body names
	User     string // key of fairness and routing
	Holder   string // whose share of what requests may hold it takes; empty: the server's
	Salt     string // of the prefix cache
	Deadline time.Duration
	Between  func(time.Duration) // hears the times between two tokens of a choice
}

// FieldError is an error of the engine that a field of the request is to blame for.
type FieldError struct {
	Field string
	Err   *engine.Error
}

func (e *FieldError) Error() string { return e.Err.Message }

// Unwrap is the engine's error.
func (e *FieldError) Unwrap() error { return e.Err }

// Completion tokenizes the prompts of a completion request. Its errors, as those of Call's methods, are an *api.Error
// of the request, an *engine.Error, which may be in a *FieldError, and why ctx has ended.
func (s *Service) Completion(ctx context.Context, text *Text, from Origin, request *completions.CompletionRequest) (*Call, error) {
	c := s.newCall(text, from, &request.Params, "cmpl-")
	c.echo = request.Echo
	c.prompts = make([]prompt, 0, request.Prompt.Len())
	for i, text := range request.Prompt.Texts {
		if err := c.checkText(i, text); err != nil {
			return nil, err
		}
		ids, err := c.tokenizeText(ctx, "prompt", text, c.AddSpecial)
		if err != nil {
			return nil, err
		}
		p := prompt{ids: ids}
		if c.echo && c.TruncatePromptTokens == nil {
			p.text = text
		}
		c.prompts = append(c.prompts, p)
	}
	for _, ids := range request.Prompt.Tokens {
		c.prompts = append(c.prompts, prompt{ids: ids})
	}
	return c, nil
}

// Chat renders the template of a chat request and tokenizes the result.
func (s *Service) Chat(ctx context.Context, text *Text, from Origin, request *completions.ChatRequest) (*Call, error) {
	c := s.newCall(text, from, &request.Params, "chatcmpl-")
	c.chat = true
	if request.AutoTools {
		if s.cfg.ToolParser == "" { // vLLM's words
			return nil, api.Invalid("tool_choice", `"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set`)
		}
		c.toolParser = s.cfg.ToolParser
		c.SkipSpecialTokens = false // some of them stand around calls
	}
	rendered, err := text.Messages(request.Messages, &request.Templating)
	if err != nil {
		return nil, err
	}
	if err := c.checkText(0, rendered); err != nil {
		return nil, err
	}
	ids, err := c.tokenizeText(ctx, "messages", rendered, c.AddSpecial)
	if err != nil {
		return nil, err
	}
	p := prompt{ids: ids}
	if c.TruncatePromptTokens != nil {
		_, p.behind, err = text.Frame(ctx, from.Salt, request.Messages, &request.Templating, rendered)
	}
	c.prompts = []prompt{p}
	return c, err
}

func (s *Service) newCall(text *Text, from Origin, p *completions.Params, prefix string) *Call {
	c := &Call{Params: p, s: s, text: text, from: from, id: prefix + from.ID, model: p.Model}
	if c.model == "" {
		c.model = from.Model
	}
	return c
}

func (c *Call) tokenizeText(ctx context.Context, field, text string, addSpecial bool) ([]engine.TokenID, error) {
	return c.text.Tokens(ctx, c.from.Salt, field, text, addSpecial)
}

// checkText refuses a text, of prompt i, that no tokenization can fit into the context, before time is
// spent on it.
func (c *Call) checkText(i int, text string) error {
	m := c.s.pool.State().Models[c.from.Model]
	if m == nil || m.Tokens == nil || c.TruncatePromptTokens != nil {
		return nil
	}
	limit, width := m.Tokens.MaxModelLen, c.text.BytesPerToken()
	if len(text)/width <= limit {
		return nil
	}
	return c.tooLong("this model's context holds %d tokens, of at most %d bytes each: no more than %d bytes; prompt %d has %d bytes; shorten the prompt", limit, width, limit*width, i, len(text))
}

func (c *Call) tooLong(format string, args ...any) error {
	return &FieldError{c.promptField(), engine.Errorf(engine.CodeTooLong, "%s", fmt.Sprintf(format, args...))}
}

func (c *Call) promptField() string {
	if c.chat {
		return "messages"
	}
	return "prompt"
}
