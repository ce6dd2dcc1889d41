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
	m, b, x := p.m, p.m.backend, c.x
	qkv, attn := m.work.qkv.Slice(0, x.Rows), m.work.attn.Slice(0, x.Rows)
	m.normLinear(qkv, x, l.attn.before, l.qkv, l.collectLowRanks(c.adapted, func(l *lowLayer) *lowRank { return &l.qkv }))
	b.StoreKV(qkv, m.ropeSpec(l, m.spec.Heads), m.opts.BlockTokens, c.segs)
	b.Attention(attn, qkv, m.spec.Attention(window), m.opts.BlockTokens, c.segs)
	m.addSublayers(x, attn, l, c.adapted)
}

// addSublayers adds to rows of the residual stream what attention gives, and the MLP of what it is then or, in parallel to attention, was before.
func (m *Model) addSublayers(x, attn kernels.Mat, l *layer, adapted []adaptedRows) {
	if m.spec.Parallel {
		m.addMLP(x, l, adapted)
		m.addAttention(x, attn, l, adapted)
		return
	}
	m.addAttention(x, attn, l, adapted)
	m.addMLP(x, l, adapted)
}

func (m *Model) addAttention(x, attn kernels.Mat, l *layer, adapted []adaptedRows) {
	low := l.collectLowRanks(adapted, func(l *lowLayer) *lowRank { return &l.out })
	if l.attn.after.Weight == nil {
		m.backend.AddLinear(x, attn, l.out)
		m.addLowRank(x, attn, low)
		return
	}
	given := m.work.given.Slice(0, x.Rows)
	m.backend.Product(given, attn, l.out)
	m.addLowRank(given, attn, low)
	m.backend.AddNorm(x, given, l.attn.after)
}

func (m *Model) addMLP(x kernels.Mat, l *layer, adapted []adaptedRows) {
	if l.router != nil {
		m.addExperts(x, l)
		return
	}
	to, normed, own := x, l.mlp.after.Weight != nil, l.mlps[0]
	if normed {
		to = m.work.given.Slice(0, x.Rows)
	}
	ups, downs := l.collectLowRanks(adapted, func(l *lowLayer) *lowRank { return &l.up }), l.collectLowRanks(adapted, func(l *lowLayer) *lowRank { return &l.down })
	switch {
	case ups != nil || downs != nil:
		m.backend.(kernels.LowRanks).MLPLowRank(to, x, l.mlp.before, m.spec.Act, own.up, own.down, ups, downs)
	case normed:
		m.backend.MLPProduct(to, x, l.mlp.before, m.spec.Act, own.up, own.down)
	default:
		m.backend.MLP(x, l.mlp.before, m.spec.Act, own.up, own.down)
	}
	if normed {
		m.backend.AddNorm(x, to, l.mlp.after)
	}
}

// storeLastKV computes the last layer's keys and values of a chunk.
func (p *Pass) storeLastKV(c *chunk, l *lastLayer) {
	m, h := p.m, p.m.spec.Heads
	kv := viewColumns(m.work.qkv.Slice(0, c.x.Rows), 0, 2*h.KV*h.Dim)
	m.normLinear(kv, c.x, l.attn.before, l.kv, l.collectLowRanks(c.adapted, func(l *lowLayer) *lowRank { return &l.kv }))
	m.backend.StoreKV(kv, m.ropeSpec(&l.layer, kernels.Heads{KV: h.KV, Dim: h.Dim}), m.opts.BlockTokens, c.segs)
}
