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
	b.NormLinear(qkv, x, l.attn.before, l.qkv)
	b.StoreKV(qkv, m.ropeSpec(l, m.spec.Heads), m.opts.BlockTokens, c.segs)
	b.Attention(attn, qkv, m.spec.Attention(window), m.opts.BlockTokens, c.segs)
	m.addSublayers(x, attn, l)
}

// addSublayers adds to rows of the residual stream what attention gives, and the MLP of what it is then or, in parallel to attention, was before.
func (m *Model) addSublayers(x, attn kernels.Mat, l *layer) {
	if m.spec.Parallel {
		m.addMLP(x, l)
		m.addAttention(x, attn, l)
		return
	}
	m.addAttention(x, attn, l)
	m.addMLP(x, l)
}

func (m *Model) addAttention(x, attn kernels.Mat, l *layer) {
	if l.attn.after.Weight == nil {
		m.backend.AddLinear(x, attn, l.out)
		return
	}
	given := m.work.given.Slice(0, x.Rows)
	m.backend.Product(given, attn, l.out)
	m.backend.AddNorm(x, given, l.attn.after)
}

func (m *Model) addMLP(x kernels.Mat, l *layer) {
	given := m.work.given.Slice(0, min(x.Rows, m.work.given.Rows))
	switch {
	case l.router != nil:
		m.addExperts(x, l)
	case l.mlp.after.Weight == nil:
		m.backend.MLP(x, l.mlp.before, m.spec.Act, l.mlps[0].up, l.mlps[0].down)
	default:
		m.backend.MLPProduct(given, x, l.mlp.before, m.spec.Act, l.mlps[0].up, l.mlps[0].down)
		m.backend.AddNorm(x, given, l.mlp.after)
	}
}

// storeLastKV computes the last layer's keys and values of a chunk.
func (p *Pass) storeLastKV(c *chunk, l *lastLayer) {
	m, h := p.m, p.m.spec.Heads
	kv := viewColumns(m.work.qkv.Slice(0, c.x.Rows), 0, 2*h.KV*h.Dim)
	m.backend.NormLinear(kv, c.x, l.attn.before, l.kv)
	m.backend.StoreKV(kv, m.ropeSpec(&l.layer, kernels.Heads{KV: h.KV, Dim: h.Dim}), m.opts.BlockTokens, c.segs)
}
