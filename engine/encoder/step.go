package encoder

import (
	"fmt"
	"time"

	"github.com/prefillonly/prefillonly/engine/model/pace"
	"github.com/prefillonly/prefillonly/kernels"
)

// Step computes rows of a group in a layer, as many as are expected to take pace.Step: their queries, keys and values or,
// when all of these are there, the rest of the layer. With the last rows of the last layer it answers. Step says whether
// the pass is done; after an error it can only be closed.
func (p *Pass) Step() (done bool, err error) {
	if len(p.groups) == 0 {
		return true, nil
	}
	start, before, layer := time.Now(), p.progress.done, p.layer
	p.advanceRows()
	if p.layer == p.m.spec.layers {
		err = p.answerGroup(&p.groups[0])
		p.groups, p.layer = p.groups[1:], 0
	} else {
		err = p.m.backend.Sync()
	}
	if err != nil {
		return false, fmt.Errorf("layer %d: %w", layer, err)
	}
	p.m.pace.Took(p.progress.done-before, time.Since(start))
	return len(p.groups) == 0, nil
}

// advanceRows computes the next rows: of a whole group that takes no longer than a step, a whole layer.
func (p *Pass) advanceRows() {
	g, s := &p.groups[0], &p.m.spec
	if p.isBetweenGroups() {
		p.embedGroup(g)
	}
	if !p.mixing {
		n := p.rowsOf(g, s.projectFLOPs(g.rows-p.row)+s.mixFLOPs(g, p.layer, p.row, g.rows))
		p.projectRows(g, n)
		p.progress.done += s.projectFLOPs(n)
		if p.row += n; p.row == g.rows {
			p.row, p.mixing = 0, true
		}
		if n < g.rows {
			return
		}
	}
	if !g.whole && p.layer == s.layers-1 {
		p.progress.done += s.mixFLOPs(g, p.layer, 0, g.rows)
		p.gatherFirstTokens(g)
		p.mixRows(g, g.rows)
		p.row, p.mixing, p.layer = 0, false, p.layer+1
		return
	}
	n := p.rowsOf(g, s.mixFLOPs(g, p.layer, p.row, g.rows))
	p.mixRows(g, n)
	p.progress.done += s.mixFLOPs(g, p.layer, p.row, p.row+n)
	if p.row += n; p.row == g.rows {
		p.row, p.mixing, p.layer = 0, false, p.layer+1
	}
}

// rowsOf is how many of the group's rows that are left, which take so many FLOPs together, to compute.
func (p *Pass) rowsOf(g *group, flops float64) int {
	step := pace.Step
	if p.work == &p.m.lowest {
		step = pace.LowestStep
	}
	return p.m.pace.Rows(g.rows-p.row, flops, step)
}

// embedGroup begins a group's residual stream.
func (p *Pass) embedGroup(g *group) {
	m, b, e := p.m, p.m.backend, &p.m.embedding
	x := p.work.x.Slice(0, g.rows)
	words, positions, types := make([]uint32, 0, g.rows), make([]uint32, 0, g.rows), make([]uint32, 0, g.rows)
	for i := range g.items {
		second, typ := g.items[i].Ask.Second, uint32(0)
		for at, id := range g.items[i].Tokens {
			if second > 0 && at == second && m.spec.types > 1 {
				typ = 1
			}
			words, positions, types = append(words, id), append(positions, uint32(m.spec.first+at)), append(types, typ)
		}
	}
	b.Embed(x, e.words, words, m.spec.embedScale)
	if e.types != nil {
		b.AddEmbed(x, e.types, types)
	}
	if e.positions != nil {
		b.AddEmbed(x, e.positions, positions)
	}
	if e.norm.weight != nil {
		b.LayerNorm(x, x, e.norm.kernelNorm(&m.spec))
	}
}

// projectRows computes queries, keys and values of the next n rows.
func (p *Pass) projectRows(g *group, n int) {
	m, l, s := p.m, &p.m.layers[p.layer], &p.m.spec
	var before kernels.Norm
	if !s.after {
		before = l.attnNorm.kernelNorm(s)
	}
	to := p.row + n
	qkv := p.work.qkv.Slice(p.row, to)
	m.backend.NormLinear(qkv, p.work.x.Slice(p.row, to), before, l.qkv)
	spec := kernels.RopeSpec{Heads: s.heads, QNorm: l.qNorm, KNorm: l.kNorm, Eps: s.eps}
	if i := s.rope[p.layer]; i >= 0 {
		spec.Rope = m.ropes[i]
	}
	m.backend.StoreKV(qkv, spec, blockTokens, g.rowSegments(p.row, to))
}

// gatherFirstTokens leaves the first token of each prompt, whose rows no later one's replaces: the keys and values of the others are
// in their blocks.
func (p *Pass) gatherFirstTokens(g *group) {
	w, b := p.work, p.m.backend
	row := make([]byte, max(matBytes(w.x.Slice(0, 1)), matBytes(w.qkv.Slice(0, 1))))
	for i := range g.items {
		it := &g.items[i]
		for _, m := range []kernels.Mat{w.x, w.qkv} {
			from, to := m.Slice(it.row, it.row+1), m.Slice(i, i+1)
			b.Read(row[:matBytes(from)], m.Buf, from.Off)
			b.Write(m.Buf, to.Off, row[:matBytes(to)])
		}
		it.row = i
	}
	g.rows, g.gathered = len(g.items), true
}

func matBytes(m kernels.Mat) int64 { return int64(m.Rows) * int64(m.Cols) * m.Type.Size() }

// mixRows computes the rest of the layer for the next n rows.
func (p *Pass) mixRows(g *group, n int) {
	b, l, s := p.m.backend, &p.m.layers[p.layer], &p.m.spec
	to := p.row + n
	x, attn := p.work.x.Slice(p.row, to), p.work.attn.Slice(p.row, to)
	spec := kernels.AttentionSpec{Heads: s.heads, Scale: s.scale, Window: s.windows[p.layer]}
	b.AttentionBothWays(attn, p.work.qkv.Slice(p.row, to), spec, blockTokens, g.rowSegments(p.row, to))
	if l.attnGave.weight != nil {
		given := p.work.given.Slice(0, n)
		b.Product(given, attn, l.out)
		b.AddNorm(x, given, l.attnGave.kernelNorm(s))
		b.MLPProduct(given, x, l.mlpNorm.kernelNorm(s), s.act, l.up, l.down)
		b.AddNorm(x, given, l.mlpGave.kernelNorm(s))
		return
	}
	b.AddLinear(x, attn, l.out)
	if !s.after {
		b.MLP(x, l.mlpNorm.kernelNorm(s), s.act, l.up, l.down)
		return
	}
	b.LayerNorm(x, x, l.attnNorm.kernelNorm(s))
	b.MLP(x, kernels.Norm{}, s.act, l.up, l.down)
	b.LayerNorm(x, x, l.mlpNorm.kernelNorm(s))
}

// projectFLOPs are those of queries, keys and values of so many rows in a layer.
func (s *spec) projectFLOPs(rows int) float64 {
	return 2 * float64(rows) * float64(s.hidden) * float64(s.heads.QKVCols())
}

// mixFLOPs are those of the rest of the layer of rows [from, to) of a group.
func (s *spec) mixFLOPs(g *group, layer, from, to int) float64 {
	matrices := s.heads.Q*s.heads.Dim + 2*s.intermediate
	if s.gated {
		matrices += s.intermediate
	}
	firsts := !g.whole && layer == s.layers-1
	if firsts {
		to = from + len(g.items)
	}
	sum := 2 * float64(to-from) * float64(s.hidden) * float64(matrices)
	for i := range g.items {
		it := &g.items[i]
		rows, seen := min(to, it.row+len(it.Tokens))-max(from, it.row), len(it.Tokens)
		if w := s.windows[layer]; w > 0 {
			seen = min(seen, 2*w-1)
		}
		if firsts {
			rows = 1
		}
		sum += 4 * float64(max(0, rows)) * float64(seen) * float64(s.heads.Q*s.heads.Dim)
	}
	return sum
}
