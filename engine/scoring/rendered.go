package scoring

import (
	"context"
	"maps"
	"strings"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/text"
)

// renderedPrompt is the prompt of a pair that render writes as one text. Of it, the document alone may be cut.
func (c *Call) renderedPrompt(ctx context.Context, p prompt, render func(query, document string) (string, error), query, document string) (prompt, error) {
	read := func(document string) ([]engine.TokenID, error) {
		text, err := render(query, document)
		if err != nil {
			return nil, err
		}
		return c.tokenizeText(ctx, p.field, text)
	}
	ids, err := read(document)
	if err != nil || c.Fit.Most == 0 {
		p.first = ids
		return p, err
	}
	// What two other documents have in common is not of the document: sentence-transformers finds it with these.
	one, err := read("0")
	if err != nil {
		return p, err
	}
	other, err := read("1 2 3 4")
	if err != nil {
		return p, err
	}
	before := min(text.Alike(one, other, false), text.Alike(one, ids, false))
	after := min(text.Alike(one, other, true), text.Alike(one, ids, true), len(ids)-before)
	p.before, p.first, p.after = ids[:before], ids[before:len(ids)-after], ids[len(ids)-after:]
	return p, nil
}

// The text around a pair, and the instruction where none is given, on which Qwen3-Reranker was trained: those of its model card
// and of vLLM's template of it.
const (
	qwen3Before = "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. " +
		"Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n"
	qwen3Document    = "<Document>: "
	qwen3After       = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
	qwen3Instruction = "Given a web search query, retrieve relevant passages that answer the query"
)

// renderQwen3 writes a pair as Qwen3-Reranker reads it. A query that has this text already, as clients of servers write it that have no
// template, stays as it is.
func (c *Call) renderQwen3(query, document string) (string, error) {
	if strings.HasPrefix(query, qwen3Before) {
		document = strings.TrimSuffix(strings.TrimPrefix(document, qwen3Document), qwen3After)
		return query + qwen3Document + document + qwen3After, nil
	}
	instruction := c.rerankInstruction()
	if instruction == "" {
		instruction = qwen3Instruction
	}
	return qwen3Before + "<Instruct>: " + instruction + "\n<Query>: " + query + "\n" + qwen3Document + document + qwen3After, nil
}

// rerankInstruction is that of the request or, as sentence-transformers has it, the checkpoint's usual prompt.
func (c *Call) rerankInstruction() string {
	if c.Instruction != "" {
		return c.Instruction
	}
	return c.subject.Prompts[c.subject.Default]
}

// renderTemplate writes a pair by the chat template, with the variables that the checkpoint has for it.
func (c *Call) renderTemplate(query, document string) (string, error) {
	with := c.Templating
	own := maps.Clone(c.subject.TemplateVariables)
	if with.AddGenerationPrompt == nil {
		prompted := string(own["add_generation_prompt"]) == "true"
		with.AddGenerationPrompt = &prompted
	}
	delete(own, "add_generation_prompt")
	if len(own) > 0 {
		maps.Copy(own, with.ChatTemplateKwargs)
		with.ChatTemplateKwargs = own
	}
	return c.subject.Text.RenderPair(query, document, c.rerankInstruction(), &with)
}

// yesNo asks for the probabilities of the two answers of a reranker.
func (c *Call) yesNo(ctx context.Context) error {
	c.max = 1
	for _, answer := range []struct {
		text string
		id   engine.TokenID
	}{{c.subject.Yes.Text, c.subject.Yes.ID}, {c.subject.No.Text, c.subject.No.ID}} {
		if answer.text == "" {
			c.ask.Labels = append(c.ask.Labels, answer.id)
			continue
		}
		ids, err := c.tokenizeText(ctx, "model", answer.text)
		if err != nil {
			return err
		}
		if len(ids) != 1 {
			return engine.Errorf(engine.CodeUnavailable, "the model `%s` cannot rank: %q is %d tokens of its vocabulary, not one", c.Named, answer.text, len(ids))
		}
		c.ask.Labels = append(c.ask.Labels, ids[0])
	}
	return nil
}
