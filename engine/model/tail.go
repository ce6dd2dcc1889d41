package model

import "github.com/prefillonly/prefillonly/kernels"

// tail is what is left of a pass when the last layer has all its keys and values. That layer's other parts are computed at the rows asked
// about alone, which go back to the residual stream. Then that is the pass's whole state again, and the LM head takes a few rows a step.
type tail struct {
	asked   []question // in the order of their rows, that have no answer yet
	through int        // of them that have gone through the last layer
}

// newTail lists what is asked.
func (p *Pass) newTail() (t tail) {
	for i := range p.items {
		t.asked = append(t.asked, p.items[i].listQuestions(p.m.spec.Vocab)...)
	}
	return t
}

// hasQuestions says that the pass is behind the last layer, and has questions left.
func (p *Pass) hasQuestions() bool { return p.layer == p.m.spec.Layers && len(p.tail.asked) > 0 }

// computeRest takes the next rows asked about through the rest of the last layer. If they are all that are left of the pass, and one step
// of the LM head, they are answered, too.
func (p *Pass) computeRest() error {
	t, s := &p.tail, &p.m.spec
	group := t.asked[t.through:min(len(t.asked), t.through+p.m.opts.ChunkRows)]
	if n := p.stepRows(len(group), s.RestFLOPs(segmentsOf(group))+s.ReadFLOPs(s.Layers-1, len(group))); n < len(group) {
		group = group[:n]
	}
	segs := segmentsOf(group)
	x := p.finishLastLayer(&p.m.last, s.Windows[s.Layers-1], group, segs)
	p.progress.done += s.RestFLOPs(segs)
	p.progress.read += s.ReadFLOPs(s.Layers-1, len(group))
	t.through += len(group)
	if len(group) == len(t.asked) && p.headRows() == len(group) {
		return p.answerQuestions(x)
	}
	p.eachRun(group, x, p.putRows)
	return nil
}

// answerNext answers the next questions, of one kind.
func (p *Pass) answerNext() error {
	rows := p.tail.asked[:p.headRows()]
	x := p.m.work.asked.Slice(0, len(rows))
	p.eachRun(rows, x, p.copyRows)
	return p.answerQuestions(x)
}

// headRows is how many of the next questions are answered in a step: of logits whose columns are the same, or of vectors.
func (p *Pass) headRows() int {
	asked := p.tail.asked
	n, most := 1, min(len(asked), logitRows, p.m.opts.ChunkRows)
	most = p.m.pace.AtLeast(leastLogitRows(p.lowest), most, p.headFLOPs(asked[:most]), p.stepLimit())
	for n < most && asked[0].isSameKind(asked[n]) {
		n++
	}
	return n
}

// answerQuestions answers the next questions by their rows of the residual stream.
func (p *Pass) answerQuestions(x kernels.Mat) error {
	next := p.tail.asked[:x.Rows]
	err := p.answerAlike(x, next)
	p.progress.done += p.headFLOPs(next)
	p.tail.asked = p.tail.asked[x.Rows:]
	p.tail.through -= x.Rows
	return err
}

// segmentsOf are the rows of questions side by side: those of an item that follow each other are one segment.
func segmentsOf(asked []question) (segs []kernels.Segment) {
	for i, q := range asked {
		if i > 0 && q.isRowAfter(asked[i-1]) {
			segs[len(segs)-1].Rows++
			continue
		}
		segs = append(segs, kernels.Segment{Row: i, Rows: 1, Pos: q.it.Cached + q.row - q.it.row, Blocks: q.it.blocks})
	}
	return segs
}

// finishLastLayer takes rows asked about, side by side, through the rest of the last layer.
func (p *Pass) finishLastLayer(l *lastLayer, window int, asked []question, segs []kernels.Segment) kernels.Mat {
	m, b, h := p.m, p.m.backend, p.m.spec.Heads
	x := m.work.asked.Slice(0, len(asked))
	p.eachRun(asked, x, p.copyRows)
	qkv, attn := m.work.qkv.Slice(0, x.Rows), m.work.attn.Slice(0, x.Rows)
	q := viewColumns(qkv, 0, h.Q*h.Dim)
	var adapted []adaptedRows
	for i, q := range asked {
		adapted = addRows(adapted, q.it, i, 1)
	}
	m.normLinear(q, x, l.attn.before, l.q, l.collectLowRanks(adapted, func(l *lowLayer) *lowRank { return &l.q }))
	b.StoreKV(q, m.ropeSpec(&l.layer, kernels.Heads{Q: h.Q, Dim: h.Dim}), m.opts.BlockTokens, segs)
	b.Attention(attn, qkv, m.spec.Attention(window), m.opts.BlockTokens, segs)
	m.addSublayers(x, attn, &l.layer, adapted)
	return x
}

// eachRun moves the rows of questions, which are side by side in x, run by run of those that follow each other in a chunk.
func (p *Pass) eachRun(asked []question, x kernels.Mat, move func(x kernels.Mat, c *chunk, at int)) {
	for from := 0; from < len(asked); {
		row := asked[from].row
		c, at, to := &p.chunks[row/p.per], row%p.per, from+1
		for to < len(asked) && asked[to].row == row+to-from && at+to-from < c.x.Rows {
			to++
		}
		move(x.Slice(from, to), c, at)
		from = to
	}
}

// copyRows fills x with a chunk's rows from at on.
func (p *Pass) copyRows(x kernels.Mat, c *chunk, at int) {
	r := &p.m.work.residual
	if r.Spilled(c.slot) {
		r.Await(r.Load(c.slot, at, x))
		return
	}
	p.moveRows(x, c.x.Slice(at, at+x.Rows))
}

// putRows makes x a chunk's rows from at on.
func (p *Pass) putRows(x kernels.Mat, c *chunk, at int) {
	r := &p.m.work.residual
	if r.Spilled(c.slot) {
		r.Await(r.SaveRows(c.slot, at, x))
		return
	}
	p.moveRows(c.x.Slice(at, at+x.Rows), x)
}

func (p *Pass) moveRows(to, from kernels.Mat) {
	row := p.m.work.rowOnHost
	for i := range to.Rows {
		a, b := from.Slice(i, i+1), to.Slice(i, i+1)
		p.m.backend.Read(row, a.Buf, a.Off)
		p.m.backend.Write(b.Buf, b.Off, row)
	}
}
