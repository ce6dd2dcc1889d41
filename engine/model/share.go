package model

import "github.com/prefillonly/prefillonly/kernels"

// progress is the floating-point operations of a pass, by which the time that its steps take is predicted:
// those of the matrices grow with the rows, those of attention with the pairs of a row and one that it sees.
type progress struct{ done, whole float64 }

// Share is how much of the pass is done.
func (p *Pass) Share() float64 {
	if p.done() {
		return 1
	}
	return min(p.progress.done/max(p.progress.whole, 1), 1-1e-9)
}

// predict counts what the pass is to compute.
func (p *Pass) predict() {
	s, last := &p.m.spec, p.m.spec.layers-1
	layers := map[int]float64{} // by window
	for i, window := range s.windows[:last] {
		if _, known := layers[window]; !known {
			layers[window] = p.eachChunk(func(c *chunk) float64 { return s.partFLOPs(c, i) })
		}
		p.progress.whole += layers[window]
	}
	p.progress.whole += p.eachChunk(func(c *chunk) float64 { return s.partFLOPs(c, last) })
	for i := range p.tail.groups {
		g := &p.tail.groups[i]
		p.progress.whole += s.restFLOPs(g.segs) + s.headFLOPs(g.questions(s.vocab))
	}
}

func (p *Pass) eachChunk(flops func(c *chunk) float64) (sum float64) {
	for i := range p.chunks {
		sum += flops(&p.chunks[i])
	}
	return sum
}

// partFLOPs are those of a chunk, or of rows of one, in a layer: in the last one those of its keys and values.
func (s *spec) partFLOPs(c *chunk, layer int) float64 {
	if layer == s.layers-1 {
		return float64(c.x.Rows) * s.storeFLOPs()
	}
	return s.layerFLOPs(c.segs, s.windows[layer])
}

// storeFLOPs are those of a row's keys and values in a layer.
func (s *spec) storeFLOPs() float64 { return 2 * float64(s.hidden) * float64(2*s.heads.KV*s.heads.Dim) }

// rowFLOPs are those of a row in a layer, beside attention.
func (s *spec) rowFLOPs() float64 {
	return 2 * float64(s.hidden) * float64(s.heads.QKVCols()+s.heads.Q*s.heads.Dim+3*s.intermediate)
}

func (s *spec) layerFLOPs(segs []kernels.Segment, window int) float64 {
	rows, pairs := seen(segs, window)
	return rows*s.rowFLOPs() + pairs*4*float64(s.heads.Q*s.heads.Dim)
}

// restFLOPs are those of tail in the last layer.
func (s *spec) restFLOPs(segs []kernels.Segment) float64 {
	rows, _ := seen(segs, 0)
	return s.layerFLOPs(segs, s.windows[s.layers-1]) - rows*s.storeFLOPs()
}

func (s *spec) headFLOPs(asked []question) (sum float64) {
	for _, q := range asked {
		columns := s.columns()
		switch {
		case q.pooled():
			columns = 0
		case q.ids != nil:
			columns = len(q.ids)
		}
		sum += 2 * float64(s.hidden) * float64(columns)
	}
	return sum
}

// seen counts the rows of segments, and the pairs of a row and a position that it sees.
func seen(segs []kernels.Segment, window int) (rows, pairs float64) {
	for _, s := range segs {
		n := float64(s.Rows)
		whole := n
		if window > 0 {
			whole = min(n, max(0, float64(window-s.Pos))) // that see all before them, and themselves
		}
		rows += n
		pairs += whole*float64(s.Pos) + whole*(whole+1)/2 + (n-whole)*float64(window)
	}
	return rows, pairs
}
