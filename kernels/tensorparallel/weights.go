package tensorparallel

import (
	"fmt"

	"github.com/prefillonly/prefillonly/kernels"
)

// linear is a matrix of which every rank has a part. Cut by its outputs, out is how they lie on the
// ranks; cut by its inputs, in is how those do. A rank's part is nil where it has no rows or columns.
type linear struct {
	b       *Backend
	parts   []kernels.Linear
	rows    int
	cols    int
	out, in layout
}

func (l *linear) In() int  { return l.cols }
func (l *linear) Out() int { return l.rows }

func (l *linear) Bytes() int64 {
	var most int64
	for _, p := range l.parts {
		if p != nil {
			most = max(most, p.Bytes())
		}
	}
	return most
}

func (l *linear) Free() { freeAll(l.b, l.parts) }

// checkStack checks matrices that are stacked, and their biases.
func checkStack(parts, bias []kernels.HostTensor) error {
	if len(parts) == 0 || len(bias) != 0 && len(bias) != len(parts) {
		return fmt.Errorf("got %d tensors and %d biases of a matrix, want as many or no biases", len(parts), len(bias))
	}
	for i, p := range parts {
		if err := p.Check(); err != nil {
			return err
		}
		if p.Cols != parts[0].Cols {
			return fmt.Errorf("tensor %q has %d columns, %q has %d", p.Name, p.Cols, parts[0].Name, parts[0].Cols)
		}
		if len(bias) == 0 || len(bias[i].Data) == 0 {
			continue
		}
		if err := bias[i].CheckUnquantized(); err != nil {
			return err
		}
		if n := bias[i].Rows * bias[i].Cols; n != p.Rows {
			return fmt.Errorf("bias %q has %d elements, %q has %d rows", bias[i].Name, n, p.Name, p.Rows)
		}
	}
	return nil
}

// rowsOf is rows [from, to) of t, in t's own memory.
func rowsOf(t kernels.HostTensor, from, to int) kernels.HostTensor {
	width := t.Cols * int(t.Type.Size())
	t.Rows, t.Data = to-from, t.Data[from*width:to*width]
	if t.Scale != nil {
		t.Scale = t.Scale[from:to]
	}
	if t.Groups != nil {
		t.Groups = t.Groups.Slice(t.Cols, from, to)
	}
	return t
}

// columnsOf is a copy of columns [from, to) of t.
func columnsOf(t kernels.HostTensor, from, to int) kernels.HostTensor {
	size := int(t.Type.Size())
	data := make([]byte, 0, t.Rows*(to-from)*size)
	for row := range t.Rows {
		at := row * t.Cols
		data = append(data, t.Data[(at+from)*size:(at+to)*size]...)
	}
	t.Cols, t.Data, t.Groups = to-from, data, nil
	return t
}

// biasOf is elements [from, to) of a bias, or none.
func biasOf(t kernels.HostTensor, from, to int) kernels.HostTensor {
	if len(t.Data) == 0 {
		return t
	}
	t.Rows, t.Cols = t.Rows*t.Cols, 1
	part := rowsOf(t, from, to)
	part.Rows, part.Cols = 1, part.Rows
	return part
}

// NewLinear cuts each of the parts by its outputs, evenly: by heads, where it projects to heads.
func (b *Backend) NewLinear(parts, bias []kernels.HostTensor) (kernels.Linear, error) {
	if err := checkStack(parts, bias); err != nil {
		return nil, fmt.Errorf("%s: %w", b.name, err)
	}
	l := &linear{b: b, cols: parts[0].Cols}
	widths := make([]int, len(parts))
	for i, p := range parts {
		widths[i] = p.Rows
		l.rows += p.Rows
	}
	l.out = stackedLayout(len(b.workers), widths...)
	return l.buildParts(func(rank int, w *worker) (kernels.Linear, error) {
		var own, ownBias []kernels.HostTensor
		for i, p := range parts {
			from, to := rankRange(p.Rows, rank, len(b.workers))
			if from == to {
				continue
			}
			own = append(own, rowsOf(p, from, to))
			if len(bias) > 0 {
				ownBias = append(ownBias, biasOf(bias[i], from, to))
			}
		}
		if len(own) == 0 {
			return nil, nil
		}
		return w.NewLinear(own, ownBias)
	})
}

// NewOutputLinear cuts the parts by their inputs; the first rank that has any adds the bias.
func (b *Backend) NewOutputLinear(parts, bias []kernels.HostTensor) (kernels.Linear, error) {
	if err := checkStack(parts, bias); err != nil {
		return nil, fmt.Errorf("%s: %w", b.name, err)
	}
	l := &linear{b: b, cols: parts[0].Cols}
	for _, p := range parts {
		l.rows += p.Rows
	}
	l.in = stackedLayout(len(b.workers), l.cols)
	return l.buildParts(func(rank int, w *worker) (kernels.Linear, error) {
		from, to := rankRange(l.cols, rank, len(b.workers))
		if from == to {
			return nil, nil
		}
		own := make([]kernels.HostTensor, len(parts))
		for i, p := range parts {
			own[i] = columnsOf(p, from, to)
		}
		if from > 0 {
			return w.NewLinear(own, nil)
		}
		return w.NewLinear(own, bias)
	})
}

// NewGatedLinear cuts gate and up by their outputs.
func (b *Backend) NewGatedLinear(gate, up kernels.HostTensor) (kernels.Linear, error) {
	if err := checkStack([]kernels.HostTensor{gate, up}, nil); err != nil {
		return nil, fmt.Errorf("%s: %w", b.name, err)
	}
	if gate.Rows != up.Rows {
		return nil, fmt.Errorf("%s: gate %q has %d rows, up %q has %d", b.name, gate.Name, gate.Rows, up.Name, up.Rows)
	}
	l := &linear{b: b, rows: gate.Rows, cols: gate.Cols, out: stackedLayout(len(b.workers), gate.Rows)}
	return l.buildParts(func(rank int, w *worker) (kernels.Linear, error) {
		from, to := rankRange(gate.Rows, rank, len(b.workers))
		if from == to {
			return nil, nil
		}
		return w.NewGatedLinear(rowsOf(gate, from, to), rowsOf(up, from, to))
	})
}

func (l *linear) buildParts(part func(rank int, w *worker) (kernels.Linear, error)) (kernels.Linear, error) {
	l.parts = make([]kernels.Linear, len(l.b.workers))
	err := l.b.callEachRank(func(i int, w *worker) (err error) {
		l.parts[i], err = part(i, w)
		return err
	})
	if err != nil {
		l.Free()
		return nil, err
	}
	return l, nil
}

// table is on every rank whole, for Embed, and seen in parts for Logits.
type table struct {
	b     *Backend
	whole []kernels.Table
	parts []kernels.Table // rows that the rank computes logits of; nil for none
}

func (t *table) Rows() int    { return t.whole[0].Rows() }
func (t *table) Cols() int    { return t.whole[0].Cols() }
func (t *table) Bytes() int64 { return t.whole[0].Bytes() }
func (t *table) Free()        { freeAll(t.b, t.whole) }

// NewTable gives every rank the whole table.
func (b *Backend) NewTable(tensor kernels.HostTensor) (kernels.Table, error) {
	n := len(b.workers)
	t := &table{b, make([]kernels.Table, n), make([]kernels.Table, n)}
	err := b.callEachRank(func(i int, w *worker) (err error) {
		if t.whole[i], err = w.NewTable(tensor); err != nil {
			return err
		}
		if from, to := rankRange(tensor.Rows, i, n); from < to {
			t.parts[i] = w.SubTable(t.whole[i], from, to)
		}
		return nil
	})
	if err != nil {
		t.Free()
		return nil, err
	}
	return t, nil
}

type vector struct {
	b     *Backend
	ranks []kernels.Vector
}

func (v *vector) Len() int     { return v.ranks[0].Len() }
func (v *vector) Bytes() int64 { return v.ranks[0].Bytes() }
func (v *vector) Free()        { freeAll(v.b, v.ranks) }

// rankVector is a rank's vector; nil stays nil.
func rankVector(v kernels.Vector, rank int) kernels.Vector {
	if v == nil {
		return nil
	}
	return v.(*vector).ranks[rank]
}

func rankNorm(n kernels.Norm, rank int) kernels.Norm {
	n.Weight, n.Bias = rankVector(n.Weight, rank), rankVector(n.Bias, rank)
	return n
}

// NewVector gives every rank the vector.
func (b *Backend) NewVector(t kernels.HostTensor) (kernels.Vector, error) {
	v := &vector{b, make([]kernels.Vector, len(b.workers))}
	err := b.callEachRank(func(i int, w *worker) (err error) {
		v.ranks[i], err = w.NewVector(t)
		return err
	})
	if err != nil {
		v.Free()
		return nil, err
	}
	return v, nil
}

type rope struct {
	b     *Backend
	ranks []kernels.Rope
}

func (r *rope) MaxPositions() int { return r.ranks[0].MaxPositions() }
func (r *rope) Bytes() int64      { return r.ranks[0].Bytes() }
func (r *rope) Free()             { freeAll(r.b, r.ranks) }

// NewRope gives every rank the angles.
func (b *Backend) NewRope(invFreq []float32, scale float32, positions int) (kernels.Rope, error) {
	r := &rope{b, make([]kernels.Rope, len(b.workers))}
	err := b.callEachRank(func(i int, w *worker) (err error) {
		r.ranks[i], err = w.NewRope(invFreq, scale, positions)
		return err
	})
	if err != nil {
		r.Free()
		return nil, err
	}
	return r, nil
}
