package completion

import (
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/completions"
)

// Answer is that of a call that is done: once, as it gives memory back on the way.
func (c *Call) Answer() api.Encoder {
	if c.chat {
		return c.chatAnswer()
	}
	return c.completionAnswer()
}

func (c *Call) completionAnswer() *completions.Completion {
	answer := c.newCompletion()
	answer.Usage, answer.Metrics = c.usage(), c.metrics()
	answer.Choices = api.Made(len(c.choices), func(i int) completions.CompletionChoice {
		if i > 0 && i%c.N == 0 {
			c.prompts[i/c.N-1].scores = nil // are out
		}
		part := c.choices[i].completionPart(i, 0)
		part.PromptLogprobs = c.choices[i].promptLogprobs()
		return part
	})
	return answer
}

// metrics are the times of a request of one choice, as it alone has a first token; nil where they are not told.
func (c *Call) metrics() *completions.Metrics {
	if !c.s.cfg.Metrics || len(c.choices) != 1 || c.Record.Tokens.First.IsZero() {
		return nil
	}
	t, n := c.Record.Tokens, len(c.choices[0].answers)
	generation := t.Decode()
	m := &completions.Metrics{FirstToken: milliseconds(t.First.Sub(c.Arrived)), Queue: milliseconds(c.Record.Queued), Generation: milliseconds(generation)}
	if n > 1 {
		m.BetweenTokens = milliseconds(generation) / float64(n-1)
	}
	if inference := c.Record.Inference(); inference > 0 {
		m.TokensPerSecond = float64(n) / inference.Seconds()
	}
	return m
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (c *Call) newCompletion() *completions.Completion {
	return &completions.Completion{ID: c.id, Object: "text_completion", Created: c.Arrived.Unix(), Model: c.Named}
}

// completionPart is what choice i has to say that was not said yet; first counts its tokens that
// were.
func (ch *choice) completionPart(i, first int) completions.CompletionChoice {
	out := completions.CompletionChoice{Index: i, Logprobs: ch.completionLogprobs(first), FinishReason: ch.finish, StopReason: ch.stop}
	if ch.c.echo && first == 0 {
		out.Text = ch.prompt.text
	}
	out.Text += ch.freshText()
	if ch.c.ReturnTokenIDs {
		out.TokenIDs = ch.generatedTokens(first)
		if first == 0 {
			out.PromptTokenIDs = ch.prompt.ids
		}
	}
	return out
}

func (c *Call) chatAnswer() *completions.Chat {
	answer := c.chatOf("chat.completion")
	answer.Usage, answer.Metrics = c.usage(), c.metrics()
	answer.Choices = api.Made(len(c.choices), func(i int) completions.ChatChoice {
		ch := &c.choices[i]
		message := ch.freshMessage(i)
		message.Role = "assistant"
		part := ch.chatPart(i, 0)
		part.Message = message
		return part
	})
	answer.PromptLogprobs = c.choices[0].promptLogprobs()
	if c.ReturnTokenIDs {
		answer.PromptTokenIDs = c.prompts[0].ids
	}
	return answer
}

func (c *Call) chatOf(object string) *completions.Chat {
	return &completions.Chat{ID: c.id, Object: object, Created: c.Arrived.Unix(), Model: c.Named}
}

// chatPart is choice i without its message, which comes before: its calls are known then.
func (ch *choice) chatPart(i, first int) completions.ChatChoice {
	out := completions.ChatChoice{Index: i, Logprobs: ch.chatLogprobs(first), FinishReason: ch.finish, StopReason: ch.stop}
	if (ch.c.callsFunction() || ch.calls > 0) && ch.finish == engine.FinishStop.String() && ch.stop == (completions.StopReason{}) {
		out.FinishReason = "tool_calls"
	}
	if ch.c.ReturnTokenIDs {
		out.TokenIDs = ch.generatedTokens(first)
	}
	return out
}

// Rendered is an admitted call as jobs would ask it: one for each prompt.
func (c *Call) Rendered() []completions.Rendered {
	list := make([]completions.Rendered, len(c.prompts))
	for i := range list {
		list[i] = completions.Rendered{
			RequestID: c.id, Model: c.Named, TokenIDs: c.prompts[i].ids,
			Sampling: completions.RenderedSampling{
				N: c.N, MaxTokens: c.prompts[i].maxTokens,
				Temperature: c.Temperature, TopP: c.TopP, Seed: c.Seed,
			},
			Stream: c.Stream, Options: c.StreamOptions, CacheSalt: c.CacheSalt, Priority: c.Priority,
		}
	}
	return list
}
