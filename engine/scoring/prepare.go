package scoring

import (
	"context"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/pooling"
	"github.com/prefillonly/prefillonly/engine/checkpoint"
)

// preparePrompts makes the prompts of a call and what is asked of them.
func (c *Call) preparePrompts(ctx context.Context) error {
	m := c.subject.Model
	switch c.Task {
	case pooling.Embed:
		c.ask = engine.Ask{Pool: m.Pool}
		return c.buildInputPrompts(ctx)
	case pooling.EmbedTokens:
		c.ask = engine.Ask{Pool: engine.PoolAll}
		return c.buildInputPrompts(ctx)
	case pooling.Classify:
		c.ask = engine.Ask{Pool: m.Pool, Head: true}
		return c.buildInputPrompts(ctx)
	case pooling.ClassifyToken:
		c.ask = engine.Ask{Pool: engine.PoolAll, Head: true}
		return c.buildInputPrompts(ctx)
	case pooling.Labels:
		return c.buildLabelPrompts(ctx)
	}
	return c.buildScorePrompts(ctx)
}

// buildScorePrompts makes the prompts of pairs: one a pair or, for an embedder, one a text.
func (c *Call) buildScorePrompts(ctx context.Context) error {
	switch c.subject.Kind {
	case checkpoint.Embedder:
		c.ask = engine.Ask{Pool: c.subject.Pool}
		return c.buildSeparatePrompts(ctx)
	case checkpoint.Reranker:
		if err := c.yesNo(ctx); err != nil {
			return err
		}
	default:
		c.ask = engine.Ask{Pool: c.subject.Pool, Head: true}
	}
	if c.isBareDocument() {
		c.tokenizeAhead(ctx, "", c.Documents)
	}
	for i, document := range c.Documents {
		p, err := c.pairPrompt(ctx, c.QueryField, c.Field, i, c.Queries[min(i, len(c.Queries)-1)], document)
		if err != nil {
			return err
		}
		c.prompts = append(c.prompts, p)
	}
	return nil
}

// isBareDocument says whether documents are tokenized as they are: uncut, and in no template.
func (c *Call) isBareDocument() bool {
	return c.Fit.Document == 0 && c.subject.Pairs != checkpoint.ByQwen3 && !c.subject.Text.Specials.Templated()
}

// buildSeparatePrompts makes a prompt of each query and behind them one of each document. Of a Score they get the checkpoint's prompts of
// those names, as sentence-transformers' encode_query and encode_document have it.
func (c *Call) buildSeparatePrompts(ctx context.Context) error {
	query, err := c.promptPrefix(c.Prompt)
	if err != nil {
		return err
	}
	document := query
	if c.Task == pooling.Score {
		query, document = c.promptOf(query, "query"), c.promptOf(document, "document", "passage", "corpus")
	}
	for _, list := range []struct {
		texts         []string
		field, prefix string
		most          int
	}{{c.Queries, c.QueryField, query, c.Fit.Query}, {c.Documents, c.Field, document, c.Fit.Document}} {
		if list.most == 0 {
			c.tokenizeAhead(ctx, list.prefix, list.texts)
		}
		for i, text := range list.texts {
			if text, err = c.truncateText(ctx, list.field, text, list.most); err != nil {
				return err
			}
			p, err := c.textPrompt(ctx, list.field, i, list.prefix, text)
			if err != nil {
				return err
			}
			c.prompts = append(c.prompts, p)
		}
	}
	return nil
}

// promptOf is the first of the checkpoint's prompts with one of these names, or usual.
func (c *Call) promptOf(usual string, names ...string) string {
	for _, name := range names {
		if text, ok := c.subject.Prompts[name]; ok {
			return text
		}
	}
	return usual
}

// buildLabelPrompts makes a prompt of the query and each item, and asks for the probabilities of the labels behind it.
func (c *Call) buildLabelPrompts(ctx context.Context) error {
	c.max, c.ask.Labels = 1, c.Labels
	if !c.Separate && c.Query.Tokens == nil {
		for i := range c.Inputs {
			text := c.Query.Text + c.Inputs[i].Text
			if c.ItemFirst {
				text = c.Inputs[i].Text + c.Query.Text
			}
			p, err := c.textPrompt(ctx, c.Field, i, "", text)
			if err != nil {
				return err
			}
			c.prompts = append(c.prompts, p)
		}
		return nil
	}
	query, err := c.labelPart(ctx, "query", c.Query)
	if err != nil {
		return err
	}
	for i := range c.Inputs {
		item, err := c.labelPart(ctx, c.Field, &c.Inputs[i])
		if err != nil {
			return err
		}
		p := prompt{first: query, second: item, field: c.Field, index: i}
		if c.ItemFirst {
			p.first, p.second = item, query
		}
		if c.AddSpecial && c.Query.Tokens == nil {
			p.before, _ = c.subject.Text.Specials.Around()
		}
		c.prompts = append(c.prompts, p)
	}
	return nil
}

func (c *Call) labelPart(ctx context.Context, field string, in *pooling.Input) ([]engine.TokenID, error) {
	if in.Tokens != nil {
		return in.Tokens, nil
	}
	return c.tokenizeText(ctx, field, in.Text)
}

// tooLong refuses prompt p, which has more tokens than the limit that the model takes.
func (c *Call) tooLong(p *prompt, limit int) *api.Error {
	around, texts := p.countKept(c.Fit.Left)
	if around+texts > limit {
		return newLengthError(p, "%s[%d] is read with %d tokens around it, which are never truncated; the model `%s` takes %d; shorten the query or the instruction", p.field, p.index, around, c.Named, limit)
	}
	if most := c.Fit.Most; most > 0 && around+texts > most {
		return newLengthError(p, "%s[%d] is to be truncated to %d tokens, which leaves no room for its text: %d are around that, which are never truncated; ask for %d or more", p.field, p.index, most, around, around+texts)
	}
	return newLengthError(p, "%s[%d] has %d tokens, special tokens included; the model `%s` takes %d; shorten it, or ask for it to be truncated", p.field, p.index, p.countTokens(), c.Named, limit)
}

func newLengthError(p *prompt, format string, args ...any) *api.Error {
	e := api.Invalid(p.field, format, args...)
	e.Code = "context_length_exceeded"
	return e
}
