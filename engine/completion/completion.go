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
	"github.com/prefillonly/prefillonly/engine/request"
	"github.com/prefillonly/prefillonly/engine/text"
	"github.com/prefillonly/prefillonly/internal/budget"
)

// Config is how requests are answered.
type Config struct {
	MaxLogprobs      int // log-probabilities that one request may ask for
	DefaultMaxTokens int // most tokens of a chat answer whose request gives no bound; 0: the context

	Metrics bool // answers tell the times of their requests

	ToolParser string // the name of package toolcalls' by which calls are found where the model chooses; empty: they are refused

	Between func(model string) func(time.Duration) // hears the times between two tokens of a choice; may be nil
}

// Service answers requests by jobs of a pool. Its methods are safe for concurrent use.
type Service struct {
	cfg      Config // set once
	logprobs *budget.Budget
}

// New makes a Service.
func New(cfg Config) *Service {
	return &Service{cfg: cfg, logprobs: budget.New(budgetRequests * int64(cfg.MaxLogprobs))}
}

// Completion tokenizes the prompts of a completion request. Its errors, as those of Call's methods, are those of
// request.Call.
func (s *Service) Completion(ctx context.Context, text *text.Text, from *request.Call, body *completions.CompletionRequest) (*Call, error) {
	c := s.newCall(text, from, &body.Params, "cmpl-")
	c.echo = body.Echo
	c.prompts = make([]prompt, 0, body.Prompt.Len())
	for i, text := range body.Prompt.Texts {
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
	for _, ids := range body.Prompt.Tokens {
		c.prompts = append(c.prompts, prompt{ids: ids})
	}
	return c, nil
}

// Chat renders the template of a chat request and tokenizes the result.
func (s *Service) Chat(ctx context.Context, text *text.Text, from *request.Call, body *completions.ChatRequest) (*Call, error) {
	c := s.newCall(text, from, &body.Params, "chatcmpl-")
	c.chat = true
	if body.AutoTools {
		if s.cfg.ToolParser == "" { // vLLM's words
			return nil, api.Invalid("tool_choice", `"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set`)
		}
		c.toolParser = s.cfg.ToolParser
		c.SkipSpecialTokens = false // some of them stand around calls
	}
	rendered, err := text.Messages(body.Messages, &body.Templating)
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
		_, p.behind, err = text.Frame(ctx, c.salt, body.Messages, &body.Templating, rendered)
	}
	c.prompts = []prompt{p}
	return c, err
}

func (s *Service) newCall(text *text.Text, from *request.Call, p *completions.Params, prefix string) *Call {
	c := &Call{Call: from, Params: p, s: s, text: text, id: prefix + from.ID, salt: from.Owner.Salt(p.CacheSalt), figures: request.Tokens{N: p.N}}
	from.Record.Tokens = &c.figures
	if s.cfg.Between != nil {
		c.between = s.cfg.Between(from.Model)
	}
	return c
}

func (c *Call) tokenizeText(ctx context.Context, field, text string, addSpecial bool) ([]engine.TokenID, error) {
	return c.text.Tokens(ctx, c.salt, field, text, addSpecial)
}

// checkText refuses a text, of prompt i, that no tokenization can fit into the context, before time is
// spent on it.
func (c *Call) checkText(i int, text string) error {
	known := c.KnownTokenLimits()
	if known == nil || c.TruncatePromptTokens != nil {
		return nil
	}
	limit, width := known.MaxModelLen, c.text.BytesPerToken()
	if len(text)/width <= limit {
		return nil
	}
	return c.tooLong("this model's context holds %d tokens, of at most %d bytes each: no more than %d bytes; prompt %d has %d bytes; shorten the prompt", limit, width, limit*width, i, len(text))
}

func (c *Call) tooLong(format string, args ...any) error {
	return &request.FieldError{Field: c.promptField(), Err: engine.Errorf(engine.CodeTooLong, "%s", fmt.Sprintf(format, args...))}
}

func (c *Call) promptField() string {
	if c.chat {
		return "messages"
	}
	return "prompt"
}
