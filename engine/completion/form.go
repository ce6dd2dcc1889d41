package completion

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/forms"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/grammar"
	"github.com/prefillonly/prefillonly/engine/request"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// newConstraint makes what holds the call's answers to their form; nil if they may be anything.
func (c *Call) newConstraint(ctx context.Context) (grammar.Constraint, error) {
	form := c.Form
	if form == nil || c.MaxTokens != nil && *c.MaxTokens == 0 {
		return nil, nil
	}
	if form.Kind == forms.Choice {
		return c.choicesOf(ctx, form)
	}
	if c.text.Grammars == nil {
		return nil, api.Invalid(form.Field, "%s cannot be served with this model's tokenizer", form.Field)
	}
	kind, text := grammar.Lark, form.Text
	switch form.Kind {
	case forms.JSON:
		kind, text = grammar.JSONSchema, grammar.Schema(text, form.Compact)
	case forms.Regex:
		kind, text = grammar.Regex, grammar.WholeRegex(text)
	case forms.Call:
		kind, text = callForm(form.Functions)
	}
	made, err := c.text.Grammar(ctx, kind, text)
	if err != nil {
		return nil, c.formError(ctx, err)
	}
	return made, nil
}

// formError says whose fault it is that a form cannot be used.
func (c *Call) formError(ctx context.Context, err error) error {
	var busy *engine.Error
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &busy) && busy.Code == engine.CodeOverloaded:
		return &request.FieldError{Field: c.Form.Field, Err: busy}
	}
	return api.Invalid(c.Form.Field, "%s cannot be used: %v", c.Form.Field, err)
}

// choicesOf takes each choice in the tokens that the tokenizer gives it, so that choices that begin apart are told apart by
// one token.
func (c *Call) choicesOf(ctx context.Context, form *forms.Form) (grammar.Constraint, error) {
	all := make([][]engine.TokenID, len(form.Choices))
	for i, text := range form.Choices {
		ids, err := c.exactTokens(ctx, form.Field, text)
		if err != nil {
			return nil, err
		}
		if ids == nil {
			return nil, api.Invalid(form.Field, "%s: the model's tokenizer has no tokens for exactly choice %d, %.100q", form.Field, i, text)
		}
		if c.hasSpecialToken(ids) {
			return nil, api.Invalid(form.Field, "%s: choice %d, %.100q, has a special token, which answers leave out", form.Field, i, text)
		}
		all[i] = ids
	}
	return grammar.NewChoices(all), nil
}

// hasSpecialToken says that some of ids are no text.
func (c *Call) hasSpecialToken(ids []engine.TokenID) bool {
	all, err := c.text.Decode(ids, false)
	text, failed := c.text.Decode(ids, true)
	return err == nil && failed == nil && all != text
}

// exactTokens are the tokens that stand for the bytes of text and no others; nil if there are none. A tokenizer that puts a
// space before a text leaves it out behind a line's end.
func (c *Call) exactTokens(ctx context.Context, field, text string) ([]engine.TokenID, error) {
	for _, before := range []string{"", "\n"} {
		ids, err := c.tokenizeText(ctx, field, before+text, false)
		if err != nil {
			return nil, err
		}
		rest := text
		for i := len(ids) - 1; i >= 0 && rest != ""; i-- {
			own := string(c.text.TokenBytes(ids[i]))
			if own == "" || !strings.HasSuffix(rest, own) {
				break
			}
			if rest = strings.TrimSuffix(rest, own); rest == "" {
				return ids[i:], nil
			}
		}
	}
	return nil, nil
}

// guide begins an answer to work in the form of the call.
func (c *Call) guide(ctx context.Context, work *engine.Tokens, vocab int) (*guided, error) {
	form, err := c.form.Clone()
	if err != nil {
		return nil, c.formError(ctx, err)
	}
	g := &guided{
		form: form, ask: work.Ask, stop: work.Stop, ids: slices.Clone(work.IDs), prompt: len(work.IDs), most: work.Max, vocab: vocab,
	}
	if !c.IgnoreEOS {
		g.eos = c.eos
	}
	if err := g.begin(); err != nil {
		form.Close()
		return nil, c.formError(ctx, err)
	}
	return g, nil
}

// knownResults are the Results of all tokens that are known with that of a job.
func (c *Call) knownResults(d client.Delivery) ([]*wire.Result, error) {
	if c.guided == nil {
		return []*wire.Result{d.Result}, nil
	}
	return c.guided[d.Index].takeResult(d.Result)
}

// continueJob has the job of an answer in a form go on to the next token, unless those that are known end the answer.
func (c *Call) continueJob(job int) {
	if c.guided != nil && !c.choices[job*c.N/c.perPrompt].isDone() {
		c.Continue(job, c.guided[job].nextWork())
	}
}

// closeForms frees the constraints of the call, which ends.
func (c *Call) closeForms() {
	for _, g := range c.guided {
		g.form.Close()
	}
	if c.form != nil {
		c.form.Close()
	}
	c.guided, c.form = nil, nil
}
