package encoder

import (
	"math"
	"slices"
	"unsafe"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/pooling"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
)

// answerGroup pools the hidden states of a group, and takes through the classification head what is to go there.
func (p *Pass) answerGroup(g *group) error {
	m := p.m
	p.states = p.work.x
	if m.final.weight != nil {
		p.normaliseStates(g.rows)
	}
	if err := m.backend.Sync(); err != nil {
		return err
	}
	var classified []*engine.TokenOutput
	for i := range g.items {
		it := &g.items[i]
		out := p.results[it.index].Output.(*engine.TokenOutput)
		if it.Ask.Head {
			classified = append(classified, out)
		}
		out.Vector = p.pooledVector(it)
	}
	if len(classified) > 0 {
		p.classifyVectors(classified)
	}
	for i := range g.items {
		res := &p.results[g.items[i].index]
		if slices.ContainsFunc(res.Output.(*engine.TokenOutput).Vector, notFinite) {
			*res = wire.ItemResult{Job: res.Job, Err: engine.Errorf(engine.CodeInternal, "the model's vector of the prompt is not finite")}
		}
	}
	return m.backend.Sync()
}

// normaliseStates is the last normalisation; one that is not centred is added to zeros.
func (p *Pass) normaliseStates(rows int) {
	b, x, norm := p.m.backend, p.work.x.Slice(0, rows), p.m.final.kernelNorm(&p.m.spec)
	if norm.Centred {
		b.LayerNorm(x, x, norm)
		return
	}
	p.states = p.work.given
	zeros := p.work.rows
	clear(zeros)
	for from := 0; from < rows; from += rowsOnHost {
		part := p.states.Slice(from, min(from+rowsOnHost, rows))
		b.Write(part.Buf, part.Off, bytesOf(zeros[:part.Rows*part.Cols]))
	}
	b.AddNorm(p.states.Slice(0, rows), x, norm)
}

func notFinite(v float32) bool { return v-v != 0 }

// pooledVector is the vector of an item's hidden states.
func (p *Pass) pooledVector(it *item) []float32 {
	m := p.m
	n, width := len(it.Tokens), m.spec.hidden
	from, to := 0, n
	switch it.Ask.Pool {
	case engine.PoolLast:
		from = n - 1
	case engine.PoolFirst:
		to = 1
	}
	pool := pooling.New(it.Ask.Pool, width)
	for ; from < to; from += rowsOnHost {
		rows := p.work.rows[:min(rowsOnHost, to-from)*width]
		m.backend.Read(bytesOf(rows), p.states.Buf, p.states.Off+4*int64(it.row+from)*int64(width))
		for ; len(rows) > 0; rows = rows[width:] {
			pool.Add(rows[:width])
		}
	}
	return pool.Vector()
}

// classifyVectors puts the logits of the classification head in the place of vectors.
func (p *Pass) classifyVectors(vectors []*engine.TokenOutput) {
	m := p.m
	b, s, h := m.backend, &m.spec, &m.head
	n := len(vectors)
	x, narrow, logits := p.work.x.Slice(0, n), p.work.attn.Slice(0, n), p.work.logits.Slice(0, n)
	for i, v := range vectors {
		b.Write(x.Buf, x.Off+4*int64(i*s.hidden), bytesOf(v.Vector))
	}
	b.LayerNorm(narrow, x, kernels.Norm{})
	m.applyLinear(x, narrow, h.dense)
	dense := make([]float32, n*s.hidden)
	b.Read(bytesOf(dense), x.Buf, x.Off)
	for i, v := range dense {
		if s.head.tanh {
			dense[i] = float32(math.Tanh(float64(v)))
		} else {
			dense[i] = float32(float64(v) / 2 * math.Erfc(-float64(v)/math.Sqrt2))
		}
	}
	b.Write(x.Buf, x.Off, bytesOf(dense))
	b.LayerNorm(narrow, x, h.norm.kernelNorm(s))
	m.applyLinear(logits, narrow, h.labels)
	for i, v := range vectors {
		v.Vector = make([]float32, s.head.labels)
		b.Read(bytesOf(v.Vector), logits.Buf, logits.Off+4*int64(i*s.head.labels))
	}
}

// applyLinear sets dst = src l^T + bias.
func (m *Model) applyLinear(dst, src kernels.Mat, l kernels.Linear) {
	m.backend.Write(dst.Buf, dst.Off, make([]byte, 4*dst.Rows*dst.Cols))
	m.backend.AddLinear(dst, src, l)
}

// bytesOf is the memory of v; the hosts of all backends are little-endian, as the backends are.
func bytesOf(v []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), 4*len(v))
}
