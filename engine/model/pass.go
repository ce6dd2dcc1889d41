package model

import (
	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/pooling"
	"github.com/prefillonly/prefillonly/engine/sampling"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
)

// Pass is one Run in progress. Between two layers, and behind the last one, its whole state is its residual stream, so any number of
// passes may stand still there while others go on; inside a layer the keys and values that are dropped with
// it, and whatever else the workspace holds, are the pass's. A lowest pass, of which there is one, has a part of the
// workspace to itself, and may stand still inside a layer too.
type Pass struct {
	m       *Model
	lowest  bool
	scratch int64 // bytes of keys and values that it has of the workspace; -1: none was taken
	spills  bool  // chunks of it are in host memory
	items   []item
	results []wire.ItemResult // of the run's items, refused ones included
	chunks  []chunk           // the residual stream of all items' new tokens
	per     int               // rows of each chunk but the last
	loaded  []uint64          // marks of each layer's part of the pages loaded from host memory; nil for none

	layer    int // layers completed
	chunk    int // chunks of the next one that are completed
	row      int // rows of the next one of these that are
	tail     tail
	progress progress
}

// item is a run's item that is being computed.
type item struct {
	*wire.TokenItem
	index   int // in results
	row     int // first row, counted through the pass's chunks
	rows    int // new tokens
	asked   int // first row, from row on, that is asked about
	pool    *pooling.Pool
	adapter int // -1 for none
	blocks  []kernels.KVBlock
}

// chunk is the part of a pass that goes through a layer's matrices together.
type chunk struct {
	x       kernels.Mat // residual stream, while it is on the device
	slot    int64       // of the workspace's residual streams
	segs    []kernels.Segment
	items   []*item // of segs
	adapted []adaptedRows

	stage  int    // where it is on the device, if its slot is in host memory
	loaded uint64 // mark of the copy to there
}

// Begin checks a run and takes the memory it needs; no other pass is inside a layer. An item that is malformed
// or too long gets its refusal in Results and does not hinder the others. The error is an *engine.Error:
// CodeTooLong for a run that can never fit, CodeOverloaded for one that does not fit beside the open passes,
// CodeInternal for one that cannot be begun as things are.
func (m *Model) Begin(run *wire.Run) (*Pass, error) {
	if run.Nested {
		return nil, engine.Errorf(engine.CodeInternal, "passes share their working memory, so that none can be nested")
	}
	if !m.Ready() {
		return nil, engine.Errorf(engine.CodeInternal, "the weights are not all loaded, or there is no working memory")
	}
	p := &Pass{m: m, lowest: run.Lowest, scratch: -1, results: make([]wire.ItemResult, len(run.Items))}
	rows, scratch := 0, 0
	for i := range run.Items {
		p.results[i].Job = run.Items[i].Job
		in, err := m.tokensOf(run.Items[i].Work)
		if err != nil {
			p.results[i].Err = err
			continue
		}
		p.results[i].Output = &engine.TokenOutput{}
		it := item{TokenItem: in, index: i, row: rows, rows: in.Len() - in.Cached}
		it.adapter, _ = m.adapterOf(in.Ask.Adapter)
		switch {
		case in.Ask.PromptLogprobs:
			it.asked = min(max(in.Known-1, 0)-in.Cached, it.rows-1)
		case !in.Ask.Pool.Whole():
			it.asked = it.rows - 1
		}
		if in.Ask.Pool != engine.PoolNone {
			it.pool = pooling.New(in.Ask.Pool, m.spec.Hidden)
		}
		it.blocks = make([]kernels.KVBlock, m.blocksOf(in.Len()))
		for b := len(in.Blocks); b < len(it.blocks); b++ {
			it.blocks[b] = m.work.scratch.kvBlock(scratch, m.pages.bytes, p.lowest)
			scratch++
		}
		rows += it.rows
		p.items = append(p.items, it)
	}
	if err := p.reserveChunks(rows, scratch); err != nil {
		p.Close()
		return nil, err
	}
	if err := p.load(run.Loads); err != nil {
		p.Close()
		return nil, err
	}
	for i := range p.items {
		m.populatePages(p.items[i].Blocks)
	}
	p.tail = p.newTail()
	p.predictFLOPs()
	return p, nil
}

// load enqueues the copies that the pass is to read. Those of passes before, which may have been
// dropped, must not come into pages that this one fills.
func (p *Pass) load(copies []wire.Copy) error {
	if p.m.host.buf != nil {
		p.m.host.offloader.Await(p.m.host.last)
	}
	if len(copies) == 0 {
		return nil
	}
	if err := p.m.checkCopies(copies); err != nil {
		return engine.Errorf(engine.CodeInternal, "%v", err)
	}
	p.loaded = p.m.loadPages(copies)
	return nil
}

func (m *Model) blocksOf(tokens int) int {
	return (tokens + m.opts.BlockTokens - 1) / m.opts.BlockTokens
}

// reserveChunks reserves the residual stream, and cuts the pass into its chunks.
func (p *Pass) reserveChunks(rows, scratch int) error {
	o, w := p.m.opts, &p.m.work
	if rows > o.MaxLen {
		return engine.Errorf(engine.CodeTooLong, "a pass of %d new tokens exceeds the limit of %d", rows, o.MaxLen)
	}
	if have := scratchBlocks(o); scratch > have {
		return engine.Errorf(engine.CodeTooLong, "a pass of %d items needs %d blocks of scratch memory, there are %d", len(p.items), scratch, have)
	}
	bytes := p.m.scratchBytes(scratch, p.lowest)
	if err := w.scratch.reserveBytes(bytes, p.lowest); err != nil {
		return err
	}
	p.scratch = bytes
	if rows == 0 {
		return nil // all items were refused
	}
	p.per = o.evenChunkRows(rows)
	slots, ok := w.residual.Take((rows + p.per - 1) / p.per)
	if !ok {
		return engine.Errorf(engine.CodeOverloaded, "a pass of %d new tokens does not fit beside the open passes, which leave %d rows", rows, w.residual.Left()*o.ChunkRows)
	}
	for i, slot := range slots {
		p.spills = p.spills || w.residual.Spilled(slot)
		p.chunks = append(p.chunks, p.newChunk(w.residual.Place(slot, 0).Slice(0, min(p.per, rows-i*p.per)), slot, i*p.per))
	}
	return nil
}

// scratchBytes is what so many blocks take of the scratch memory: those of a lowest pass end with the last whole block.
func (m *Model) scratchBytes(blocks int, lowest bool) int64 {
	bytes := int64(blocks) * m.pages.bytes
	if lowest && blocks > 0 {
		bytes += m.work.scratch.bytes % m.pages.bytes
	}
	return bytes
}

// tokensOf is an item's work if the model can do it.
func (m *Model) tokensOf(work wire.ItemWork) (*wire.TokenItem, *engine.Error) {
	in, ok := work.(*wire.TokenItem)
	if !ok {
		return nil, engine.Errorf(engine.CodeInternal, "the model takes tokens, not %T", work)
	}
	return in, m.checkItem(in)
}

func (m *Model) checkItem(in *wire.TokenItem) *engine.Error {
	tokens, reach := in.Len(), len(in.Blocks)*m.opts.BlockTokens
	switch {
	case tokens == 0:
		return engine.Errorf(engine.CodeBadTokens, "the prompt is empty")
	case tokens > m.opts.MaxLen:
		return engine.Errorf(engine.CodeTooLong, "the prompt has %d tokens, the limit is %d", tokens, m.opts.MaxLen)
	case in.Cached < 0 || in.Cached >= tokens || in.Cached-in.Part.Tokens > reach:
		return engine.Errorf(engine.CodeInternal, "%d of %d tokens are said to be cached in %d blocks of %d", in.Cached, tokens, len(in.Blocks), m.opts.BlockTokens)
	case in.Part != wire.Part{} && !m.checkPart(in):
		return engine.Errorf(engine.CodeInternal, "%d tokens of block %d of %d are said to end %d cached ones, in blocks of %d",
			in.Part.Tokens, in.Part.Block, m.pages.count, in.Cached, m.opts.BlockTokens)
	case in.Draw < 0 || in.Draw >= tokens:
		return engine.Errorf(engine.CodeInternal, "%d of %d tokens are said to be generated", in.Draw, tokens)
	case !in.Brings():
		return engine.Errorf(engine.CodeInternal, "of %d tokens, %d of them cached and %d generated, the first %d are left out, and bans look at %d",
			tokens, in.Cached, in.Draw, in.From, in.Ask.Recalls())
	case in.Known < 0 || in.Known > 0 && !in.Ask.PromptLogprobs:
		return engine.Errorf(engine.CodeInternal, "the scores of %d tokens are said to be known, with prompt logprobs %t", in.Known, in.Ask.PromptLogprobs)
	case in.Cached > 0 && (in.Ask.PromptLogprobs && in.Cached >= in.Known || in.Ask.Pool.Whole()):
		return engine.Errorf(engine.CodeInternal, "prompt logprobs need the whole prompt computed, and so does a vector of it, but %d tokens are said to be cached", in.Cached)
	}
	for i, id := range in.Tokens {
		if int64(id) >= int64(m.spec.Vocab) {
			return engine.Errorf(engine.CodeBadTokens, "token %d at position %d is outside the vocabulary of %d", id, in.From+i, m.spec.Vocab)
		}
	}
	for _, b := range in.Blocks {
		if int64(b) >= int64(m.pages.count) {
			return engine.Errorf(engine.CodeInternal, "block %d is outside the cache of %d", b, m.pages.count)
		}
	}
	if _, there := m.adapterOf(in.Ask.Adapter); !there {
		return engine.Errorf(engine.CodeUnavailable, "the model has no adapter %.300q, but these: %s", in.Ask.Adapter, m.adapterNames())
	}
	if err := m.checkPool(&in.Ask); err != nil {
		return err
	}
	return sampling.Check(&in.Ask, m.spec.Vocab)
}

// checkPart says whether an item's part begins one of its blocks and is in a page that there is.
func (m *Model) checkPart(in *wire.TokenItem) bool {
	n := in.Part.Tokens
	return n > 0 && n < m.opts.BlockTokens && n <= in.Cached && (in.Cached-n)%m.opts.BlockTokens == 0 && int64(in.Part.Block) < int64(m.pages.count)
}

// newChunk is rows of the pass, from one on, that are in x. Segments share their item's list of blocks, so that a layer's
// addresses are written once.
func (p *Pass) newChunk(x kernels.Mat, slot int64, from int) chunk {
	c := chunk{x: x, slot: slot}
	for i := range p.items {
		if seg, ok := p.items[i].rowSegment(from, from+x.Rows); ok {
			c.segs, c.items = append(c.segs, seg), append(c.items, &p.items[i])
			c.adapted = addRows(c.adapted, &p.items[i], seg.Row, seg.Rows)
		}
	}
	return c
}

// rowSegment is the item's part of rows [from, to) of the pass.
func (it *item) rowSegment(from, to int) (kernels.Segment, bool) {
	first, end := max(from, it.row), min(to, it.row+it.rows)
	return kernels.Segment{
		Row:    first - from,
		Rows:   end - first,
		Pos:    it.Cached + first - it.row,
		Blocks: it.blocks,
	}, first < end
}

// Results are the answers in the order of the run's items, once Step has said done.
func (p *Pass) Results() []wire.ItemResult { return p.results }

// Close gives the pass's memory back, done or not. Blocks it was to fill are not valid unless it was
// done.
func (p *Pass) Close() {
	p.awaitStagedLoad()
	for _, c := range p.chunks {
		p.m.work.residual.Give(c.slot)
	}
	if p.scratch >= 0 {
		p.m.work.scratch.releaseBytes(p.scratch, p.lowest)
	}
	p.items, p.chunks, p.scratch = nil, nil, -1
}
