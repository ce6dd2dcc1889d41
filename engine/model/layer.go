package model

import (
	"math"

	"github.com/prefillonly/prefillonly/kernels"
)

func (m *Model) ropeSpec(l *layer, heads kernels.Heads) kernels.RopeSpec {
	return kernels.RopeSpec{Heads: heads, Rope: m.rope, QNorm: l.qNorm, KNorm: l.kNorm, Eps: m.spec.eps}
}

func (s *spec) attention(window int) kernels.AttentionSpec {
	return kernels.AttentionSpec{
		Heads:  s.heads,
		Scale:  float32(1 / math.Sqrt(float64(s.heads.Dim))),
		Window: window,
	}
}

// columns is the view of a matrix's columns [from, from+n).
func columns(mat kernels.Mat, from, n int) kernels.Mat {
	mat.Off += int64(from) * mat.Type.Size()
	mat.Cols = n
	return mat
}

// compute runs one layer over the pass, a chunk at a time. A chunk's queries need the keys of no
// later chunk, so this is exact.
func (p *Pass) compute(l *layer, window int) {
	m, b, eps := p.m, p.m.backend, p.m.spec.eps
	rope, attention := m.ropeSpec(l, m.spec.heads), m.spec.attention(window)
	p.eachChunk(true, func(c *chunk) {
		p.embed(c)
		x := c.x
		qkv, attn := m.work.qkv.Slice(0, x.Rows), m.work.attn.Slice(0, x.Rows)
		b.NormLinear(qkv, x, l.attnNorm, eps, l.qkv)
		b.StoreKV(qkv, rope, m.opts.BlockTokens, c.segs)
		b.Attention(attn, qkv, attention, m.opts.BlockTokens, c.segs)
		b.AddLinear(x, attn, l.out)
		b.MLP(x, l.mlpNorm, eps, l.gated, l.down)
	})
}

// finish runs the last layer: keys and values of all rows, all else at the asked rows alone, up to
// their logits and the answers.
func (p *Pass) finish(l *lastLayer, window int) error {
	m, b := p.m, p.m.backend
	h := m.spec.heads
	rope := m.ropeSpec(&l.layer, kernels.Heads{KV: h.KV, Dim: h.Dim})
	p.eachChunk(false, func(c *chunk) {
		p.embed(c)
		kv := columns(m.work.qkv.Slice(0, c.x.Rows), 0, 2*h.KV*h.Dim)
		b.NormLinear(kv, c.x, l.attnNorm, m.spec.eps, l.kv)
		b.StoreKV(kv, rope, m.opts.BlockTokens, c.segs)
	})
	var group askedRows
	for i := range p.items {
		it := &p.items[i]
		for at := it.asked; at < it.rows; {
			n := min(it.rows-at, m.opts.ChunkRows-group.count)
			group.add(it, at, n)
			at += n
			if group.count == m.opts.ChunkRows {
				if err := p.answer(l, window, &group); err != nil {
					return err
				}
				group = askedRows{}
			}
		}
	}
	return p.answer(l, window, &group)
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

// answer takes gathered rows through the rest of the last layer and the LM head.
func (p *Pass) answer(l *lastLayer, window int, g *askedRows) error {
	if g.count == 0 {
		return nil
	}
	m, b, eps := p.m, p.m.backend, p.m.spec.eps
	m.working()
	h := m.spec.heads
	x := p.gather(g)
	qkv, attn := m.work.qkv.Slice(0, g.count), m.work.attn.Slice(0, g.count)
	q := columns(qkv, 0, h.Q*h.Dim)
	b.NormLinear(q, x, l.attnNorm, eps, l.q)
	b.StoreKV(q, m.ropeSpec(&l.layer, kernels.Heads{Q: h.Q, Dim: h.Dim}), m.opts.BlockTokens, g.segs)
	b.Attention(attn, qkv, m.spec.attention(window), m.opts.BlockTokens, g.segs)
	b.AddLinear(x, attn, l.out)
	b.MLP(x, l.mlpNorm, eps, l.gated, l.down)
	return p.logits(x, g)
}

// copyRows fills x with a chunk's rows from at on.
func (p *Pass) copyRows(x kernels.Mat, c *chunk, at int) {
	r := &p.m.work.residual
	if r.spilled(c.slot) {
		r.offloader.Load(r.copyOf(c.slot, at, x.Rows, x))
		r.offloader.Await(r.offloader.Mark())
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
