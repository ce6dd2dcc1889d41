package client

import (
	"fmt"
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// Part is a part of Tokens that names ids.
type Part string

// The parts.
const (
	PartPrompt  Part = "the prompt"
	PartStop    Part = "the stop tokens"
	PartLabels  Part = "the labels"
	PartAllowed Part = "the allowed tokens"
	PartBias    Part = "the biases"
	PartBans    Part = "the bans"
)

// TokenError says that a job names a token that its model does not have.
type TokenError struct {
	Part  Part
	ID    engine.TokenID
	Vocab int // tokens of the model
}

func (e *TokenError) Error() string {
	return fmt.Sprintf("%s: token id %d; the model's vocabulary has %d tokens (0 to %d)", e.Part, e.ID, e.Vocab, e.Vocab-1)
}

// LengthError says that a prompt is empty, or too long for its model's context.
type LengthError struct {
	Prompt, Generate int // tokens
	Limit            int // of both together
}

func (e *LengthError) Error() string {
	if e.Prompt == 0 {
		return "the prompt has no tokens"
	}
	return fmt.Sprintf("the prompt has %d tokens and %d more are to be generated; the model's context holds %d", e.Prompt, e.Generate, e.Limit)
}

// check holds a job against what its model takes.
func (c *Client) check(job *engine.Job) error {
	m, err := c.State().usableModel(job.Model)
	switch {
	case err != nil:
		return err
	case m == nil:
		return engine.Errorf(engine.CodeUnavailable, "no executor serves %s yet", job.Model)
	}
	switch work := job.Work.(type) {
	case *engine.Tokens:
		if m.Tokens != nil {
			return checkTokens(work, m.Tokens)
		}
	case *engine.Tensors:
		if m.Tensors != nil {
			return checkTensors(work, m.Tensors)
		}
	}
	return engine.Errorf(engine.CodeBadTokens, "the model %s takes %s, and the job brings %T", job.Model, kindOf(m), job.Work)
}

func kindOf(m *wire.Served) string {
	if m.Tokens != nil {
		return "tokens"
	}
	return "tensors"
}

func checkTokens(t *engine.Tokens, limits *wire.TokenLimits) error {
	if len(t.IDs) == 0 || t.Max < 0 || t.Max > limits.MaxModelLen || len(t.IDs) > limits.MaxModelLen-t.Max {
		return &LengthError{Prompt: len(t.IDs), Generate: t.Max, Limit: limits.MaxModelLen}
	}
	if err := checkPool(t, limits); err != nil {
		return err
	}
	vocab := limits.VocabSize
	var allowed []engine.TokenID // the greatest stands for all
	if !t.Ask.Allowed.Empty() {
		allowed = []engine.TokenID{t.Ask.Allowed.Last()}
	}
	for _, list := range []struct {
		part Part
		ids  []engine.TokenID
	}{{PartPrompt, t.IDs}, {PartAllowed, allowed}, {PartLabels, t.Ask.Labels}, {PartStop, t.Stop}} {
		if i := slices.IndexFunc(list.ids, func(id engine.TokenID) bool { return int(id) >= vocab }); i >= 0 {
			return &TokenError{list.part, list.ids[i], vocab}
		}
	}
	for _, b := range t.Ask.Bias {
		if int(b.ID) >= vocab {
			return &TokenError{PartBias, b.ID, vocab}
		}
		if math.IsNaN(float64(b.Bias)) {
			return engine.Errorf(engine.CodeBadTokens, "the bias of token %d is not a number", b.ID)
		}
	}
	for _, ban := range t.Ask.Bans {
		for _, id := range ban.Tokens {
			if int(id) >= vocab {
				return &TokenError{PartBans, id, vocab}
			}
		}
	}
	return nil
}

// checkPool holds what is asked to what the model can answer.
func checkPool(t *engine.Tokens, limits *wire.TokenLimits) error {
	switch pooled := t.Ask.Pool != engine.PoolNone; {
	case !pooled && limits.VectorsOnly:
		return engine.Errorf(engine.CodeBadTokens, "the model has no LM head: it gives vectors and no tokens")
	case pooled && limits.Hidden == 0:
		return engine.Errorf(engine.CodeBadTokens, "the model gives no vectors")
	case t.Ask.Head && limits.Labels == 0:
		return engine.Errorf(engine.CodeBadTokens, "the model has no classification head")
	case t.Ask.Second < 0 || t.Ask.Second > len(t.IDs):
		return engine.Errorf(engine.CodeBadTokens, "the second text begins at token %d; the prompt has %d", t.Ask.Second, len(t.IDs))
	}
	return nil
}

// checkTensors holds names, element types and shapes to the model's.
func checkTensors(t *engine.Tensors, limits *wire.TensorLimits) error {
	batch := -1
	if err := checkRefs("input", t.Inputs, limits.Inputs, true, &batch); err != nil {
		return err
	}
	for _, name := range t.Outputs {
		if specOf(limits.Outputs, name) == nil {
			return engine.Errorf(engine.CodeBadTokens, "the model has no output %.100q", name)
		}
	}
	if !(t.Frames > 0) || math.IsInf(t.Frames, 1) {
		return engine.Errorf(engine.CodeBadTokens, "the job is of %v frames", t.Frames)
	}
	if t.Grad == nil {
		return nil
	}
	if limits.Backward == 0 {
		return engine.Errorf(engine.CodeBadTokens, "the model gives no gradients")
	}
	if len(t.Grad.Seeds) == 0 || len(t.Grad.Inputs) == 0 {
		return engine.Errorf(engine.CodeBadTokens, "a gradient needs a seed and an input; %d and %d are given", len(t.Grad.Seeds), len(t.Grad.Inputs))
	}
	for _, name := range t.Grad.Inputs {
		if specOf(limits.Inputs, name) == nil {
			return engine.Errorf(engine.CodeBadTokens, "a gradient is asked to the input %.100q, which the model does not have", name)
		}
	}
	return checkRefs("seed", t.Grad.Seeds, limits.Outputs, false, &batch)
}

// checkRefs holds tensors to their specs: each given once, and all if every spec is to have one. Batch is the
// first dimension of all of them, -1 until one is known.
func checkRefs(what string, refs []engine.Ref, specs []wire.TensorSpec, every bool, batch *int) error {
	for i, r := range refs {
		spec := specOf(specs, r.Name)
		if spec == nil {
			return engine.Errorf(engine.CodeBadTokens, "%s %.100q is not one of the model's: %s", what, r.Name, specNames(specs))
		}
		if slices.ContainsFunc(refs[:i], func(other engine.Ref) bool { return other.Name == r.Name }) {
			return engine.Errorf(engine.CodeBadTokens, "%s %s is given twice", what, r.Name)
		}
		if r.Type != spec.Type {
			return engine.Errorf(engine.CodeBadTokens, "%s %s is of %v; the model takes %v", what, r.Name, r.Type, spec.Type)
		}
		if !fitsSpec(r.Shape, spec.Shape) {
			return engine.Errorf(engine.CodeBadTokens, "%s %s has the shape %v; the model takes %v, where -1 is any", what, r.Name, r.Shape, spec.Shape)
		}
		if len(spec.Shape) == 0 || spec.Shape[0] >= 0 {
			continue
		}
		if *batch >= 0 && r.Shape[0] != *batch {
			return engine.Errorf(engine.CodeBadTokens, "%s %s has a batch of %d, and others one of %d", what, r.Name, r.Shape[0], *batch)
		}
		*batch = r.Shape[0]
	}
	if every && len(refs) < len(specs) {
		for _, s := range specs {
			if !slices.ContainsFunc(refs, func(r engine.Ref) bool { return r.Name == s.Name }) {
				return engine.Errorf(engine.CodeBadTokens, "%s %s is missing", what, s.Name)
			}
		}
	}
	return nil
}

func specOf(specs []wire.TensorSpec, name string) *wire.TensorSpec {
	if i := slices.IndexFunc(specs, func(s wire.TensorSpec) bool { return s.Name == name }); i >= 0 {
		return &specs[i]
	}
	return nil
}

func specNames(specs []wire.TensorSpec) string {
	var list string
	for i, s := range specs {
		if i > 0 {
			list += ", "
		}
		list += s.Name
	}
	return list
}

// fitsSpec says whether a shape is one of those that a spec allows. Every dimension has at least one element.
func fitsSpec(shape, spec []int) bool {
	return slices.EqualFunc(shape, spec, func(n, allowed int) bool { return n > 0 && (allowed < 0 || n == allowed) })
}
