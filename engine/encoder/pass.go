package encoder

import (
	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
)

// Pass is one Run in progress. Its prompts go through the whole model group by group; between two groups nothing of it is
// on the device, so that any number of passes may stand still there while others go on. A lowest pass, of which there is
// one, has memory to itself, and may stand still anywhere.
type Pass struct {
	m       *Model
	work    *workspace
	results []wire.ItemResult // of the run's items, refused ones included
	states  kernels.Mat       // the last hidden states of the group that is answered
	groups  []group           // that are still to be computed

	layer    int  // of the first group, to be computed
	mixing   bool // the layer's keys and values are all there
	row      int  // rows that have been computed of what comes next
	progress struct{ done, whole float64 }
}

// group is items that go through the model together.
type group struct {
	items        []item
	rows, blocks int
	whole        bool // hidden states of other tokens than the first ones are wanted
	gathered     bool // a row is a prompt's first token
}

// item is a run's item that is being computed.
type item struct {
	*wire.TokenItem
	index  int // in results
	row    int // first row of the group
	blocks []kernels.KVBlock
}

// Begin checks a run; no other pass is inside a group. An item that is malformed or too long gets its refusal in Results
// and does not hinder the others. The error is an *engine.Error of CodeInternal: the run cannot be begun as things are.
func (m *Model) Begin(run *wire.Run) (*Pass, error) {
	switch {
	case run.Nested:
		return nil, engine.Errorf(engine.CodeInternal, "passes share their working memory, so that none can be nested")
	case len(run.Loads) > 0:
		return nil, engine.Errorf(engine.CodeInternal, "%d blocks are to be loaded, and an encoder keeps none", len(run.Loads))
	case !m.Ready():
		return nil, engine.Errorf(engine.CodeInternal, "the weights are not all loaded, or there is no working memory")
	}
	p := &Pass{m: m, work: &m.work, results: make([]wire.ItemResult, len(run.Items))}
	if run.Lowest {
		p.work = &m.lowest
	}
	for i := range run.Items {
		p.results[i].Job = run.Items[i].Job
		in, err := m.tokensOf(run.Items[i].Work)
		if err != nil {
			p.results[i].Err = err
			continue
		}
		p.results[i].Output = &engine.TokenOutput{}
		p.addItem(item{TokenItem: in, index: i})
	}
	for i := range p.groups {
		g := &p.groups[i]
		for layer := range m.spec.layers {
			p.progress.whole += m.spec.projectFLOPs(g.rows) + m.spec.mixFLOPs(g, layer, 0, g.rows)
		}
	}
	return p, nil
}

// addItem puts an item into the last group, or begins another one where it does not fit.
func (p *Pass) addItem(it item) {
	tokens, blocks := len(it.Tokens), blocksOf(len(it.Tokens))
	n := len(p.groups)
	if n == 0 || p.groups[n-1].rows+tokens > p.m.opts.ChunkRows || p.groups[n-1].blocks+blocks > p.m.groupBlocks() {
		p.groups = append(p.groups, group{})
		n++
	}
	g := &p.groups[n-1]
	it.row, it.blocks = g.rows, make([]kernels.KVBlock, blocks)
	for i := range it.blocks {
		size := p.m.backend.KVBlockBytes(p.m.spec.heads, blockTokens)
		it.blocks[i] = kernels.KVBlock{Buf: p.work.kv, Off: p.work.kvOff + int64(g.blocks+i)*size}
	}
	g.items = append(g.items, it)
	g.whole = g.whole || it.Ask.Pool != engine.PoolFirst
	g.rows += tokens
	g.blocks += blocks
}

func (m *Model) tokensOf(work wire.ItemWork) (*wire.TokenItem, *engine.Error) {
	in, ok := work.(*wire.TokenItem)
	if !ok {
		return nil, engine.Errorf(engine.CodeInternal, "the model takes tokens, not %T", work)
	}
	return in, m.checkItem(in)
}

func (m *Model) checkItem(in *wire.TokenItem) *engine.Error {
	tokens, ask := in.Len(), &in.Ask
	switch {
	case tokens == 0:
		return engine.Errorf(engine.CodeBadTokens, "the prompt is empty")
	case tokens > m.opts.MaxLen:
		return engine.Errorf(engine.CodeTooLong, "the prompt has %d tokens, the limit is %d", tokens, m.opts.MaxLen)
	case in.From != 0 || in.Cached != 0 || len(in.Blocks) > 0 || in.Part != wire.Part{} || in.Draw != 0:
		return engine.Errorf(engine.CodeInternal, "of %d tokens %d are said to be cached and %d generated, in %d blocks of %d, and the first %d are left out: an encoder keeps 0 blocks",
			tokens, in.Cached, in.Draw, len(in.Blocks), blockTokens, in.From)
	case ask.Pool == engine.PoolNone || ask.Pool > engine.PoolAll || ask.PromptLogprobs:
		return engine.Errorf(engine.CodeBadTokens, "an encoder gives vectors of a prompt alone, by one of %d ways, and way %d is asked for", engine.PoolAll, ask.Pool)
	case ask.Head && m.spec.head.labels == 0:
		return engine.Errorf(engine.CodeBadTokens, "the model has no classification head")
	case ask.Head && ask.Pool == engine.PoolAll:
		return engine.Errorf(engine.CodeBadTokens, "an encoder's classification head reads one vector of a prompt, not each token's")
	}
	for i, id := range in.Tokens {
		if int64(id) >= int64(m.spec.vocab) {
			return engine.Errorf(engine.CodeBadTokens, "token %d at position %d is outside the vocabulary of %d", id, i, m.spec.vocab)
		}
	}
	return nil
}

// rowSegments are the parts of items in rows [from, to) of the group.
func (g *group) rowSegments(from, to int) []kernels.Segment {
	var segs []kernels.Segment
	for i := range g.items {
		it := &g.items[i]
		first, end := max(from, it.row), min(to, it.row+len(it.Tokens))
		if g.gathered {
			end = min(to, it.row+1)
		}
		if first < end {
			segs = append(segs, kernels.Segment{Row: first - from, Rows: end - first, Pos: first - it.row, Blocks: it.blocks, Len: len(it.Tokens)})
		}
	}
	return segs
}

// Results are the answers in the order of the run's items, once Step has said done.
func (p *Pass) Results() []wire.ItemResult { return p.results }

// Close drops the pass, done or not.
func (p *Pass) Close() { p.groups = nil }

// Boundary says that others may go on before the pass does: between two groups, or anywhere if it is a lowest one.
func (p *Pass) Boundary() bool { return p.isBetweenGroups() || p.work == &p.m.lowest }

// isBetweenGroups says that the pass is between two groups.
func (p *Pass) isBetweenGroups() bool { return p.layer == 0 && p.row == 0 && !p.mixing }

// Share is how much of the pass is done.
func (p *Pass) Share() float64 {
	if len(p.groups) == 0 {
		return 1
	}
	return min(p.progress.done/p.progress.whole, 1-1e-9)
}
