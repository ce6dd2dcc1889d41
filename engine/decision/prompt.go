package decision

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/decisions"
	"github.com/prefillonly/prefillonly/engine/text"
)

// The words around a question are vLLM's, but that what holds for all questions stands before them: they share this part of
// the prompt, too.
const (
	rule  = "Answer with the letter of one option only."
	asked = "Question: "
	// marker stands for a question where only what follows it is wanted.
	marker = "prefillonly-question"
)

// labelNames are what options are called: letters, and pairs of letters where there are more options than letters.
func labelNames() (names []string) {
	for a := 'A'; a <= 'Z'; a++ {
		names = append(names, string(a))
	}
	for a := 'A'; a <= 'Z'; a++ {
		for b := 'A'; b <= 'Z'; b++ {
			names = append(names, string(a)+string(b))
		}
	}
	return names
}

// promptEnding is what follows a question, the same behind all.
func (c *Call) promptEnding(text *text.Text) (string, error) {
	prompt, err := c.render(text, []string{marker})
	if err != nil {
		return "", err
	}
	return prompt[strings.LastIndex(prompt, marker)+len(marker):], nil
}

// read renders and tokenizes a question, and finds its options' labels.
func (c *Call) read(ctx context.Context, text *text.Text, end string, q *decisions.Question) (out question, err error) {
	names, labels, err := c.findLabels(ctx, text, end, len(q.Options))
	if err != nil {
		return out, err
	}
	prompt, err := c.render(text, questionText(q, names))
	if err != nil {
		return out, err
	}
	if err := c.checkText(text, prompt); err != nil {
		return out, err
	}
	out.labels = labels
	out.prompt, err = text.Tokens(ctx, c.salt, "input", prompt, false)
	return out, err
}

// checkText refuses a prompt that no tokenization can fit into the context, before time is spent on it.
func (c *Call) checkText(text *text.Text, prompt string) error {
	limits := c.KnownTokenLimits()
	if limits == nil {
		return nil
	}
	limit, width := limits.MaxModelLen, text.BytesPerToken()
	if len(prompt)/width <= limit {
		return nil
	}
	return tooLong("the input and a question have %d bytes together; the model's context holds %d tokens, of at most %d bytes each: no more than %d bytes; shorten the input or the question", len(prompt), limit, width, limit*width)
}

func tooLong(format string, args ...any) *api.Error {
	e := api.Invalid("input", format, args...)
	e.Code = "context_length_exceeded"
	return e
}

func questionText(q *decisions.Question, names []string) []string {
	lines := []string{rule, asked + q.Instructions}
	for i, o := range q.Options {
		line := names[i] + ": " + o.Text
		if o.Description != "" {
			line += " - " + o.Description
		}
		lines = append(lines, line)
	}
	return lines
}

// render is the prompt of the input and lines of a question. These follow the last message where that is the user's.
func (c *Call) render(text *text.Text, lines []string) (string, error) {
	messages := slices.Clone(c.body.Messages)
	body := strings.Join(lines, "\n")
	if last := &messages[len(messages)-1]; last.Role == "user" {
		last.Content = strings.TrimLeft(last.Content+"\n\n"+body, "\n")
	} else {
		messages = append(messages, decisions.Message{Role: "user", Content: body})
	}
	raw, err := json.Marshal(messages)
	if err != nil {
		return "", err
	}
	variables := map[string]json.RawMessage{"enable_thinking": json.RawMessage("false")}
	maps.Copy(variables, c.body.ChatTemplateKwargs)
	return text.Messages(raw, &api.Templating{ChatTemplateKwargs: variables})
}

// findLabels finds names for so many options that are distinct single tokens behind the end of a prompt. Where there are
// too few of these, the first names do, by all of their tokens.
func (c *Call) findLabels(ctx context.Context, text *text.Text, end string, n int) (names []string, labels [][]engine.TokenID, err error) {
	before, err := text.Tokens(ctx, c.salt, "questions", end, false)
	if err != nil {
		return nil, nil, err
	}
	all := labelNames()
	seen := map[engine.TokenID]bool{}
	whole := make([][]engine.TokenID, n)
	for i, name := range all {
		ids, err := text.Tokens(ctx, c.salt, "questions", end+name, false)
		if err != nil {
			return nil, nil, err
		}
		if len(ids) <= len(before) || !slices.Equal(ids[:len(before)], before) {
			return nil, nil, api.Invalid("model", "the tokenizer of `%s` joins the label %s with the end of the prompt; its questions cannot be answered", c.Named, name)
		}
		label := slices.Clone(ids[len(before):])
		if i < n {
			whole[i] = label
		}
		if len(label) == 1 && !seen[label[0]] {
			seen[label[0]] = true
			names, labels = append(names, name), append(labels, label)
		}
		if len(labels) == n {
			return names, labels, nil
		}
	}
	if i := firstAlike(whole); i >= 0 {
		return nil, nil, fmt.Errorf("the labels %s and another one are the same tokens of `%s`", all[i], c.Named)
	}
	return all[:n], whole, nil
}

// firstAlike is a label whose tokens are those of one before it; -1 where there is none.
func firstAlike(labels [][]engine.TokenID) int {
	for i, l := range labels {
		for _, other := range labels[:i] {
			if slices.Equal(l, other) {
				return i
			}
		}
	}
	return -1
}
