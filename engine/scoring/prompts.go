package scoring

import (
	"context"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/pooling"
	"github.com/prefillonly/prefillonly/engine/checkpoint"
	"github.com/prefillonly/prefillonly/engine/request"
)

// prompt is what one job reads, as parts that are cut to fit before they are put together.
type prompt struct {
	before, first, between, second, after []engine.TokenID
	typed                                 bool // the model is told where second begins
	prompted                              int  // how many of its first tokens are a prompt's that is not pooled
	led, trailed                          int  // tokens that first begins and ends with and that are not of the client's text
	field                                 string
	index                                 int // in field
}

func (p *prompt) countAround() int { return len(p.before) + len(p.between) + len(p.after) }

func (p *prompt) countTokens() int { return p.countAround() + len(p.first) + len(p.second) }

// countKept is what stays of p however short it is cut at that side: tokens that are not of its texts, and of each text one.
func (p *prompt) countKept(left bool) (around, texts int) {
	around = p.countAround()
	if len(p.first) > p.led+p.trailed {
		texts++
		if left {
			around += p.trailed
		} else {
			around += p.led
		}
	}
	return around, texts + min(1, len(p.second))
}

// truncateTexts shortens the texts of p so that p has at most n tokens, which are no fewer than it keeps, the longer text first, as tokenizers do.
func (p *prompt) truncateTexts(n int, left bool) {
	room := n - p.countAround()
	a, b := longestFirst(len(p.first), len(p.second), room)
	if left {
		p.prompted = min(p.prompted, max(len(p.before), p.prompted-len(p.first)+a))
	}
	p.first, p.second = truncateTokens(p.first, a, left), truncateTokens(p.second, b, left)
}

// longestFirst is how many tokens are left of two texts that may have n together.
func longestFirst(a, b, n int) (int, int) {
	switch short := min(a, b); {
	case a+b <= n:
		return a, b
	case short > n/2: // both are cut
		if a > b {
			return n/2 + n%2, n / 2
		}
		return n / 2, n/2 + n%2
	case a > b:
		return n - b, b
	}
	return a, n - a
}

func truncateTokens(ids []engine.TokenID, n int, left bool) []engine.TokenID {
	if n >= len(ids) {
		return ids
	}
	if left {
		return ids[len(ids)-n:]
	}
	return ids[:n]
}

func (p *prompt) tokenIDs() []engine.TokenID {
	return slices.Concat(p.before, p.first, p.between, p.second, p.after)
}

// tokenizeText tokenizes a text without special tokens; each text of a call once.
func (c *Call) tokenizeText(ctx context.Context, field, text string) ([]engine.TokenID, error) {
	if ids, ok := c.known[text]; ok {
		return ids, nil
	}
	if err := c.checkText(field, text); err != nil {
		return nil, err
	}
	ids, err := c.encodeText(ctx, field, text)
	if err != nil {
		return nil, err
	}
	if c.read += len(ids); c.read > c.s.most {
		return nil, c.tooMany(field)
	}
	c.known[text] = ids
	return ids, nil
}

// encodeText tokenizes a text without special tokens, in lower case where the checkpoint says so.
func (c *Call) encodeText(ctx context.Context, field, text string) ([]engine.TokenID, error) {
	if c.subject.LowerCase {
		text = strings.ToLower(strings.ReplaceAll(text, "İ", "i\u0307")) // the one character that becomes two
	}
	return c.subject.Text.Tokens(ctx, c.salt, field, text, false)
}

// checkText refuses a text that no tokenization can fit into the context, before time is spent on it.
func (c *Call) checkText(field, text string) error {
	limits := c.KnownTokenLimits()
	if limits == nil || c.Fit != (pooling.Fit{}) {
		return nil
	}
	limit, width := c.inputLimit(limits.MaxModelLen), c.subject.Text.BytesPerToken()
	if len(text)/width <= limit {
		return nil
	}
	return &request.FieldError{Field: field, Err: engine.Errorf(engine.CodeTooLong,
		"the model takes %d tokens, of at most %d bytes each: no more than %d bytes; a text of %s has %d bytes; shorten it or ask for truncation", limit, width, limit*width, field, len(text))}
}

// textPrompt is the prompt of a text, which came in field, behind a prefix.
func (c *Call) textPrompt(ctx context.Context, field string, index int, prefix, text string) (prompt, error) {
	ids, err := c.tokenizeText(ctx, field, prefix+text)
	p := prompt{first: ids, field: field, index: index}
	if c.AddSpecial {
		p.before, p.after = c.subject.Text.Specials.Around()
	}
	unprompted := c.subject.Unprompted && c.ask.Pool == c.subject.Pool
	if err != nil || prefix == "" || !unprompted && c.Fit.Most == 0 {
		return p, err
	}
	alone, err := c.tokenizeText(ctx, field, prefix)
	if p.led = len(alone); unprompted {
		p.prompted = len(p.before) + len(alone)
	}
	return p, err
}

// inputPrompt is the prompt of one input, as the model reads one text, or two.
func (c *Call) inputPrompt(ctx context.Context, i int, prefix string) (prompt, error) {
	switch in := c.Inputs[i]; {
	case in.Tokens != nil:
		return prompt{first: in.Tokens, field: c.Field, index: i}, nil
	case in.Pair != nil:
		return c.pairPrompt(ctx, c.Field, c.Field, i, in.Text, *in.Pair)
	default:
		return c.textPrompt(ctx, c.Field, i, prefix, in.Text)
	}
}

// buildInputPrompts makes a prompt of each input, with the checkpoint's prompt in front of texts.
func (c *Call) buildInputPrompts(ctx context.Context) error {
	if c.Messages != nil {
		return c.buildChatPrompt(ctx)
	}
	prefix, err := c.promptPrefix(c.Prompt)
	if err != nil {
		return err
	}
	c.tokenizeAhead(ctx, prefix, c.plainTexts())
	for i := range c.Inputs {
		p, err := c.inputPrompt(ctx, i, prefix)
		if err != nil {
			return err
		}
		c.prompts = append(c.prompts, p)
	}
	return nil
}

// buildChatPrompt makes the prompt of messages.
func (c *Call) buildChatPrompt(ctx context.Context) error {
	text, err := c.subject.Text.Messages(c.Messages, &c.Templating)
	if err != nil {
		return err
	}
	p, err := c.textPrompt(ctx, c.Field, 0, "", text)
	if err == nil && c.Fit.Most != 0 {
		p.led, p.trailed, err = c.subject.Text.Frame(ctx, c.salt, c.Messages, &c.Templating, text)
	}
	c.prompts = []prompt{p}
	return err
}

// plainTexts are the inputs that are one text.
func (c *Call) plainTexts() (texts []string) {
	for _, in := range c.Inputs {
		if in.Tokens == nil && in.Pair == nil {
			texts = append(texts, in.Text)
		}
	}
	return texts
}

// promptPrefix is the prompt that texts of the request get.
func (c *Call) promptPrefix(name *string) (string, error) {
	text, err := PromptOf(c.subject.Model, c.Named, name)
	if err != nil || name != nil {
		return text, err
	}
	return c.promptOf(text, c.PromptAmong...), nil
}

// PromptOf is the prompt of a name that the model has or, without one, that which texts get then.
func PromptOf(m *checkpoint.Model, model string, name *string) (string, error) {
	if name == nil {
		return m.Prompts[m.Default], nil
	}
	text, ok := m.Prompts[*name]
	if !ok {
		return "", api.Invalid("prompt_name", "the model `%s` has no prompt %.60q; it has %s", model, *name, promptNames(m.Prompts))
	}
	return text, nil
}

func promptNames(prompts map[string]string) string {
	if len(prompts) == 0 {
		return "none"
	}
	var names []string
	for name := range prompts {
		names = append(names, name)
	}
	slices.Sort(names)
	return joinNames(names)
}

// pairPrompt is the prompt of a query and a document.
func (c *Call) pairPrompt(ctx context.Context, queryField, documentField string, index int, query, document string) (prompt, error) {
	p := prompt{field: documentField, index: index}
	a, err := c.truncateText(ctx, queryField, query, c.Fit.Query)
	if err != nil {
		return p, err
	}
	b, err := c.truncateText(ctx, documentField, document, c.Fit.Document)
	if err != nil {
		return p, err
	}
	switch {
	case c.subject.Text.Specials.Templated():
		return c.renderedPrompt(ctx, p, c.renderTemplate, a, b)
	case c.subject.Pairs == checkpoint.ByQwen3:
		return c.renderedPrompt(ctx, p, c.renderQwen3, a, b)
	}
	around, err := c.subject.Text.Specials.Pair()
	if err != nil {
		return p, engine.Errorf(engine.CodeUnavailable, "the model `%s` cannot read pairs: %v", c.Named, err)
	}
	p.before, p.between, p.after, p.typed = around.Before, around.Between, around.After, around.Typed
	if p.first, err = c.tokenizeText(ctx, queryField, a); err != nil {
		return p, err
	}
	p.second, err = c.tokenizeText(ctx, documentField, b)
	return p, err
}

// truncateText is a text cut to its first n tokens, if n is not 0.
func (c *Call) truncateText(ctx context.Context, field, text string, n int) (string, error) {
	if n == 0 {
		return text, nil
	}
	ids, err := c.tokenizeText(ctx, field, text)
	if err != nil || len(ids) <= n {
		return text, err
	}
	return c.subject.Text.Untokenize(field, ids[:n], false)
}
