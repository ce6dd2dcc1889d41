package model

import "github.com/prefillonly/prefillonly/kernels"

func (m *Model) ropeSpec(l *layer, heads kernels.Heads) kernels.RopeSpec {
	return kernels.RopeSpec{Heads: heads, Rope: m.ropes[l.rotation], QNorm: l.qNorm, KNorm: l.kNorm, Eps: m.spec.Eps}
}

// viewColumns is the view of a matrix's columns [from, from+n).
func viewColumns(mat kernels.Mat, from, n int) kernels.Mat {
	mat.Off += int64(from) * mat.Type.Size()
	mat.Cols = n
	return mat
}

// computeLayer takes a chunk through a layer. A chunk's queries need the keys of no later chunk, so this is exact.
func (p *Pass) computeLayer(c *chunk, l *layer, window int) {
	m, b, eps, x := p.m, p.m.backend, p.m.spec.Eps, c.x
	qkv, attn := m.work.qkv.Slice(0, x.Rows), m.work.attn.Slice(0, x.Rows)
	b.NormLinear(qkv, x, l.attnNorm, eps, l.qkv)
	b.StoreKV(qkv, m.ropeSpec(l, m.spec.Heads), m.opts.BlockTokens, c.segs)
	b.Attention(attn, qkv, m.spec.Attention(window), m.opts.BlockTokens, c.segs)
	b.AddLinear(x, attn, l.out)
	b.MLP(x, l.mlpNorm, eps, m.spec.Act, l.gated, l.down)
}

// storeLastKV computes the last layer's keys and values of a chunk.
func (p *Pass) storeLastKV(c *chunk, l *lastLayer) {
	m, h := p.m, p.m.spec.Heads
	kv := viewColumns(m.work.qkv.Slice(0, c.x.Rows), 0, 2*h.KV*h.Dim)
	m.backend.NormLinear(kv, c.x, l.attnNorm, m.spec.Eps, l.kv)
	m.backend.StoreKV(kv, m.ropeSpec(&l.layer, kernels.Heads{KV: h.KV, Dim: h.Dim}), m.opts.BlockTokens, c.segs)
}
