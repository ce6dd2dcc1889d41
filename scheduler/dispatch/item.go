package dispatch

import (
	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/pages"
)

// item is a job's part of a pass.
func (j *Job) item() wire.ItemWork {
	if t, ok := j.Submit.Work.(*engine.Tensors); ok {
		return &wire.TensorItem{Tensors: *t}
	}
	ask, cached := j.asking(), j.CachedTokens()
	from := min(cached, j.Len()-min(j.Answers(), ask.Recalls()))
	return &wire.TokenItem{
		From: from, Tokens: j.From(from), Cached: cached, Blocks: pages.Of(&j.Job), Part: pages.PartOf(&j.Job),
		Known: j.Unasked(), Draw: j.Answers(), Ask: ask,
	}
}
