package model

import (
	"fmt"
	"time"

	"github.com/prefillonly/prefillonly/engine/model/pace"
)

// Step computes rows of a chunk in a layer, as many as are expected to take pace.Step: in the first layer after their
// embedding, in the last one their keys and values alone. When that has all of these, a step takes rows asked about through the rest of
// it, and when all have been, so many rows through the LM head. Step says whether the pass is done; after an error it can only be closed.
func (p *Pass) Step() (done bool, err error) {
	if p.isDone() {
		return true, nil
	}
	start, before, layer := time.Now(), p.progress.took(), p.layer
	if p.hasQuestions() {
		err = p.answerNext()
	} else {
		err = p.stepLayer()
	}
	if err == nil {
		err = p.m.backend.Sync()
	}
	if err != nil {
		return false, fmt.Errorf("layer %d: %w", layer, err)
	}
	p.m.pace.Took(p.progress.took()-before, time.Since(start))
	return p.isDone(), nil
}

// stepLayer takes the next step of a layer, and leaves the layer with its last one.
func (p *Pass) stepLayer() (err error) {
	last := p.m.spec.Layers - 1
	if p.isBetweenLayers() {
		p.enterLayer()
	}
	if p.chunk < len(p.chunks) {
		p.computeNext()
	}
	if p.layer == last && p.chunk == len(p.chunks) {
		err = p.computeRest()
	}
	if p.chunk == len(p.chunks) && (p.layer < last || p.tail.through == len(p.tail.asked)) {
		p.layer, p.chunk = p.layer+1, 0
	}
	return err
}

// isDone says that there is nothing left to compute.
func (p *Pass) isDone() bool {
	return len(p.items) == 0 || p.layer == p.m.spec.Layers && !p.hasQuestions()
}

// Boundary says that others may go on before the pass does: between two layers or two steps of the LM head, or anywhere if it is a lowest
// one that is on the device.
func (p *Pass) Boundary() bool { return p.isBetweenLayers() || p.lowest && !p.spills }

// isBetweenLayers says that the pass is between two layers, or behind the last one: its residual stream is its whole state.
func (p *Pass) isBetweenLayers() bool { return p.chunk == 0 && p.row == 0 }

// stepLimit is how long a step is to take, about.
func (p *Pass) stepLimit() time.Duration {
	if p.lowest {
		return pace.LowestStep
	}
	return pace.Step
}

// stepRows is how many of the layer's rows to compute in a step, which take so many operations together.
func (p *Pass) stepRows(rows int, flops float64) int {
	return p.m.pace.AtLeast(p.m.spec.LeastRows(pace.Least), rows, flops, p.stepLimit())
}

// enterLayer prepares the layer to be computed.
func (p *Pass) enterLayer() {
	p.setLayerBlocks()
	if p.loaded != nil {
		p.m.host.offloader.Await(p.loaded[p.layer])
	}
	p.copyParts()
}

// computeNext computes the next rows of the layer.
func (p *Pass) computeNext() {
	m, s := p.m, &p.m.spec
	last, whole := p.layer == s.Layers-1, &p.chunks[p.chunk]
	if p.row == 0 {
		p.ensureChunkOnDevice(p.chunk)
	}
	first, left := p.chunk*p.per+p.row, whole.x.Slice(p.row, whole.x.Rows)
	c := p.newChunk(left, whole.slot, first)
	if n := p.stepRows(left.Rows, p.partFLOPs(&c, p.layer)+p.readFLOPs(left.Rows, p.layer)); n < left.Rows {
		c = p.newChunk(left.Slice(0, n), whole.slot, first)
	}
	p.embedChunk(&c)
	if last {
		p.storeLastKV(&c, &m.last)
	} else {
		p.computeLayer(&c, &m.layers[p.layer], s.Windows[p.layer])
	}
	p.progress.done += p.partFLOPs(&c, p.layer)
	p.progress.read += p.readFLOPs(c.x.Rows, p.layer)
	if p.row += c.x.Rows; p.row == whole.x.Rows {
		p.saveChunk(whole, !last)
		p.chunk, p.row = p.chunk+1, 0
	}
}

// embedChunk begins a chunk's residual stream, at the first layer.
func (p *Pass) embedChunk(c *chunk) {
	if p.layer > 0 {
		return
	}
	for i, s := range c.segs {
		p.m.backend.Embed(c.x.Slice(s.Row, s.Row+s.Rows), p.m.table, c.items[i].At(s.Pos, s.Pos+s.Rows), p.m.spec.EmbedScale)
	}
}

// copyParts copies the blocks that other sequences share in part with the items to these, in the layer to
// be computed: the rest of them is written, or not read.
func (p *Pass) copyParts() {
	for i := range p.items {
		it := &p.items[i]
		if it.Part.Tokens > 0 {
			from := p.m.pages.kvBlock(it.Part.Block, p.layer, p.m.spec.Layers)
			p.m.backend.CopyKV(it.blocks[it.Cached/p.m.opts.BlockTokens], from, p.m.pages.bytes)
		}
	}
}

// setLayerBlocks points the items' pages at the layer to be computed.
func (p *Pass) setLayerBlocks() {
	for i := range p.items {
		it := &p.items[i]
		for b := range min(len(it.Blocks), len(it.blocks)) {
			it.blocks[b] = p.m.pages.kvBlock(it.Blocks[b], p.layer, p.m.spec.Layers)
		}
	}
}
