package model

import "github.com/prefillonly/prefillonly/kernels"

func (m *Model) ropeSpec(l *layer, heads kernels.Heads) kernels.RopeSpec {
	return kernels.RopeSpec{Heads: heads, Rope: m.rope, QNorm: l.qNorm, KNorm: l.kNorm, Eps: m.spec.Eps}
}

// columns is the view of a matrix's columns [from, from+n).
func columns(mat kernels.Mat, from, n int) kernels.Mat {
	mat.Off += int64(from) * mat.Type.Size()
	mat.Cols = n
	return mat
}

// compute takes a chunk through a layer. A chunk's queries need the keys of no later chunk, so this is exact.
func (p *Pass) compute(c *chunk, l *layer, window int) {
	m, b, eps, x := p.m, p.m.backend, p.m.spec.Eps, c.x
	qkv, attn := m.work.qkv.Slice(0, x.Rows), m.work.attn.Slice(0, x.Rows)
	b.NormLinear(qkv, x, l.attnNorm, eps, l.qkv)
	b.StoreKV(qkv, m.ropeSpec(l, m.spec.Heads), m.opts.BlockTokens, c.segs)
	b.Attention(attn, qkv, m.spec.Attention(window), m.opts.BlockTokens, c.segs)
	b.AddLinear(x, attn, l.out)
	b.MLP(x, l.mlpNorm, eps, l.gated, l.down)
}

// store computes the last layer's keys and values of a chunk.
func (p *Pass) store(c *chunk, l *lastLayer) {
	m, h := p.m, p.m.spec.Heads
	kv := columns(m.work.qkv.Slice(0, c.x.Rows), 0, 2*h.KV*h.Dim)
	m.backend.NormLinear(kv, c.x, l.attnNorm, m.spec.Eps, l.kv)
	m.backend.StoreKV(kv, m.ropeSpec(&l.layer, kernels.Heads{KV: h.KV, Dim: h.Dim}), m.opts.BlockTokens, c.segs)
}

// tail is what is left of the last layer when that has all its keys and values: its other parts, at the rows
// asked about alone, up to their logits and the answers.
type tail struct {
	groups []askedRows // that are still to be taken through it
	x      kernels.Mat // the rows of a group that have been, and whose logits are still to be computed
	asked  []question  // of x
}

func (t *tail) done() bool { return len(t.groups)+len(t.asked) == 0 }

// newTail gathers what is asked, in groups.
func (p *Pass) newTail() tail {
	most := p.m.opts.askedRows(p.lowest)
	var groups []askedRows
	var group askedRows
	for i := range p.items {
		it := &p.items[i]
		for at := it.asked; at < it.rows; {
			n := min(it.rows-at, most-group.count)
			group.add(it, at, n)
			at += n
			if group.count == most {
				groups, group = append(groups, group), askedRows{}
			}
		}
	}
	if group.count > 0 {
		groups = append(groups, group)
	}
	return tail{groups: groups}
}

// answer answers questions of one kind, of logits whose columns are the same or of vectors; before, if there
// are no such rows, it takes the next group through the rest of the layer.
func (p *Pass) answer(l *lastLayer, window int) error {
	t := &p.tail
	if len(t.asked) == 0 {
		g := &t.groups[0]
		t.x, t.asked, t.groups = p.rest(l, window, g), g.questions(p.m.spec.Vocab), t.groups[1:]
		p.progress.done += p.m.spec.RestFLOPs(g.segs)
	}
	n, most := 1, min(len(t.asked), logitRows)
	if p.lowest {
		most = p.m.pace.AtLeast(lowestLogitRows, most, p.headFLOPs(t.asked[:most]), p.limit())
	}
	for n < most && t.asked[0].like(t.asked[n]) {
		n++
	}
	err := p.ask(t.x.Slice(0, n), t.asked[:n])
	p.progress.done += p.headFLOPs(t.asked[:n])
	t.x, t.asked = t.x.Slice(n, t.x.Rows), t.asked[n:]
	return err
}

// askedRows are rows whose logits are wanted, gathered into one matrix.
type askedRows struct {
	count int
	runs  []askedRun
	segs  []kernels.Segment
}

// askedRun is n rows of an item, from its row at on.
type askedRun struct {
	it    *item
	at, n int
}

func (g *askedRows) add(it *item, at, n int) {
	g.runs = append(g.runs, askedRun{it, at, n})
	g.segs = append(g.segs, kernels.Segment{Row: g.count, Rows: n, Pos: it.Cached + at, Blocks: it.blocks})
	g.count += n
}

// rest takes gathered rows through the rest of the last layer.
func (p *Pass) rest(l *lastLayer, window int, g *askedRows) kernels.Mat {
	m, b, eps, h := p.m, p.m.backend, p.m.spec.Eps, p.m.spec.Heads
	x := p.gather(g)
	qkv, attn := m.work.qkv.Slice(0, g.count), m.work.attn.Slice(0, g.count)
	q := columns(qkv, 0, h.Q*h.Dim)
	b.NormLinear(q, x, l.attnNorm, eps, l.q)
	b.StoreKV(q, m.ropeSpec(&l.layer, kernels.Heads{Q: h.Q, Dim: h.Dim}), m.opts.BlockTokens, g.segs)
	b.Attention(attn, qkv, m.spec.Attention(window), m.opts.BlockTokens, g.segs)
	b.AddLinear(x, attn, l.out)
	b.MLP(x, l.mlpNorm, eps, l.gated, l.down)
	return x
}

// copyRows fills x with a chunk's rows from at on.
func (p *Pass) copyRows(x kernels.Mat, c *chunk, at int) {
	r := &p.m.work.residual
	if r.Spilled(c.slot) {
		r.Await(r.Load(c.slot, at, x))
		return
	}
	row := p.m.work.rowOnHost
	for i := range x.Rows {
		from, to := c.x.Slice(at+i, at+i+1), x.Slice(i, i+1)
		p.m.backend.Read(row, from.Buf, from.Off)
		p.m.backend.Write(to.Buf, to.Off, row)
	}
}

// gather copies the asked rows of the residual stream side by side.
func (p *Pass) gather(g *askedRows) kernels.Mat {
	x := p.m.work.asked.Slice(0, g.count)
	if p.lowest {
		x = p.m.work.askedLowest.Slice(0, g.count)
	}
	to := 0
	for _, r := range g.runs {
		for row, left := r.it.row+r.at, r.n; left > 0; {
			c, at := &p.chunks[row/p.per], row%p.per
			n := min(left, c.x.Rows-at)
			p.copyRows(x.Slice(to, to+n), c, at)
			row, left, to = row+n, left-n, to+n
		}
	}
	return x
}
