package model

// progress is the floating-point operations of a pass, by which the time that its steps take is predicted:
// those of the matrices grow with the rows, those of attention with the pairs of a row and one that it sees. Beside them is what reading
// experts has taken, in operations of as long.
type progress struct{ done, whole, read float64 }

// took is what the steps so far have taken, in operations.
func (p *progress) took() float64 { return p.done + p.read }

// Share is how much of the pass is done.
func (p *Pass) Share() float64 {
	if p.isDone() {
		return 1
	}
	return min(p.progress.done/max(p.progress.whole, 1), 1-1e-9)
}

// predictFLOPs counts what the pass is to compute.
func (p *Pass) predictFLOPs() {
	s, last := &p.m.spec, p.m.spec.Layers-1
	type kind struct {
		window  int
		experts bool
	}
	layers := map[kind]float64{}
	for i, window := range s.Windows[:last] {
		k := kind{window, s.HasExperts(i)}
		if _, known := layers[k]; !known {
			layers[k] = p.eachChunk(func(c *chunk) float64 { return p.partFLOPs(c, i) })
		}
		p.progress.whole += layers[k]
	}
	p.progress.whole += p.eachChunk(func(c *chunk) float64 { return p.partFLOPs(c, last) })
	p.progress.whole += s.RestFLOPs(segmentsOf(p.tail.asked)) + p.headFLOPs(p.tail.asked)
}

func (p *Pass) eachChunk(flops func(c *chunk) float64) (sum float64) {
	for i := range p.chunks {
		sum += flops(&p.chunks[i])
	}
	return sum
}

// partFLOPs are those of a chunk, or of rows of one, in a layer: in the last one those of its keys and values.
func (p *Pass) partFLOPs(c *chunk, layer int) float64 {
	s := &p.m.spec
	if layer == s.Layers-1 {
		return float64(c.x.Rows) * s.StoreFLOPs()
	}
	return s.LayerFLOPs(c.segs, layer)
}

// readFLOPs is what reading experts takes beside partFLOPs; in the last layer it is not for keys and values.
func (p *Pass) readFLOPs(rows, layer int) float64 {
	if layer == p.m.spec.Layers-1 {
		return 0
	}
	return p.m.spec.ReadFLOPs(layer, rows)
}

func (p *Pass) headFLOPs(asked []question) (sum float64) {
	s := &p.m.spec
	for _, q := range asked {
		columns := s.Columns()
		switch {
		case q.isPooled():
			columns = 0
		case q.ids != nil:
			columns = len(q.ids)
		}
		sum += 2 * float64(s.Hidden) * float64(columns)
	}
	return sum
}
