package fleet

import (
	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kvcache"
)

// toPages is a lease's pages in the form that travels.
func toPages(pages []kvcache.Page) []wire.BlockID {
	ids := make([]wire.BlockID, len(pages))
	for i, p := range pages {
		ids[i] = wire.BlockID(p)
	}
	return ids
}

// appendLoads and appendSaves bring an index's copies into the form that travels.
func appendLoads(to []wire.Copy, loads []kvcache.Copy) []wire.Copy {
	for _, c := range loads {
		to = append(to, wire.Copy{Device: wire.BlockID(c.Device), Host: wire.BlockID(c.Host)})
	}
	return to
}

func appendSaves(to []wire.Copy, saves []kvcache.Save) []wire.Copy {
	for _, s := range saves {
		to = append(to, wire.Copy{Device: wire.BlockID(s.Device), Host: wire.BlockID(s.Host)})
	}
	return to
}

// item is a job's part of a pass.
func (j *Job) item() wire.ItemWork {
	if t, ok := j.Submit.Work.(*engine.Tensors); ok {
		return &wire.TensorItem{Tensors: *t}
	}
	ask, cached := j.asking(), j.CachedTokens()
	from := min(cached, j.Len()-min(j.Generated(), ask.Recalls()))
	return &wire.TokenItem{
		From: from, Tokens: j.From(from), Cached: cached, Blocks: toPages(j.Lease.Pages), Part: j.copied(),
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

// copied is what the job's pass is to copy from a block of another one.
func (j *Job) copied() wire.Part {
	if j.Continues() || j.Lease.Part.Tokens == 0 {
		return wire.Part{}
	}
	return wire.Part{Block: wire.BlockID(j.Lease.Part.Page), Tokens: j.Lease.Part.Tokens}
}
