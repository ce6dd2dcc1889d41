package dispatch

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/pages"
	"github.com/prefillonly/prefillonly/scheduler/scores"
)

// item is a job's part of a pass.
func (j *Job) item() wire.ItemWork {
	if t, ok := j.Submit.Work.(*engine.Tensors); ok {
		return &wire.TensorItem{Tensors: *t}
	}
	ask, cached := j.asking(), j.CachedTokens()
	from := min(cached, j.Len()-min(j.Generated(), ask.Recalls()))
	return &wire.TokenItem{
		From: from, Tokens: j.From(from), Cached: cached, Blocks: pages.Of(&j.Job), Part: pages.PartOf(&j.Job),
		Known: j.knownTokens(), Draw: j.Generated(), Ask: ask,
	}
}

// knownTokens are the leading ones whose scores the next pass is not asked for.
func (j *Job) knownTokens() int {
	if !j.Asks.Ask.PromptLogprobs || j.Generated() > 0 {
		return 0
	}
	return j.Known
}

// Token takes what a pass has found for a job of tokens, and returns what its client is told.
func (j *Job) Token(found *engine.TokenOutput) (*engine.TokenOutput, engine.Finish) {
	out := &engine.TokenOutput{Cached: j.Hits}
	if j.Generated() == 0 {
		out.Prompt, out.Vector = scores.Join(j.known, j.Asks.Ask.PromptTop, found.Prompt), found.Vector
	}
	if j.Asks.Max == 0 {
		return out, engine.FinishLength
	}
	out.Index, out.Answer = j.Generated(), found.Answer
	j.Added = append(j.Added, found.Answer.Token)
	switch {
	case slices.Contains(j.Asks.Stop, found.Answer.Token):
		return out, engine.FinishStop
	case j.Generated() >= j.Asks.Max:
		return out, engine.FinishLength
	}
	return out, engine.FinishNone
}
