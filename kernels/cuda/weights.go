package cuda

import (
	"fmt"
	"math"

	"github.com/prefillonly/prefillonly/kernels"
)

// uploadTensor writes t at off, codes as they are and all else as bfloat16, and returns the bytes written.
func (b *Backend) uploadTensor(dst kernels.Buffer, off int64, t kernels.HostTensor) (int64, error) {
	bytes := int64(len(t.Data)) / t.Type.Size() * int64(heldSize(t.Type))
	s, err := b.streamTo()
	if err != nil {
		return 0, err
	}
	return bytes, s.uploadTensor(dst.(*buffer).at+Ptr(off), t)
}

// roundBF16 rounds to nearest even; NaN stays NaN.
func roundBF16(f float32) uint16 {
	u := math.Float32bits(f)
	if f != f {
		return uint16(u>>16) | 0x40
	}
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}

// table is a matrix that logits are products with: of bfloat16, or of int8.
type table struct{ *linear }

func (t table) Rows() int { return t.out }
func (t table) Cols() int { return t.in }

// NewTable uploads an embedding or LM head.
func (b *Backend) NewTable(t kernels.HostTensor) (kernels.Table, error) {
	return b.tableOf(t, b.stackWeights)
}

// tableOf is a table whose weights stack makes.
func (b *Backend) tableOf(t kernels.HostTensor, stack func(parts []kernels.HostTensor, l *linear) error) (kernels.Table, error) {
	if t.Type == kernels.F8E4M3 {
		return nil, fmt.Errorf("%s: %w", b.Name(), t.CheckTable())
	}
	parts := []kernels.HostTensor{t}
	l := newLinear(parts)
	if l.typ == kernels.I8 {
		l.rows = l.out + codesMultiple - 1 // a view may end anywhere, and is filled up with the rows that follow
	}
	if err := b.fillLinear(l, parts, nil, stack); err != nil {
		return nil, err
	}
	return table{l}, nil
}

// vector is float32 weights of a normalisation.
type vector struct {
	kernels.Buffer
	n int
}

func (v *vector) Len() int { return v.n }

// NewVector uploads normalisation weights as float32.
func (b *Backend) NewVector(t kernels.HostTensor) (kernels.Vector, error) {
	n := t.Rows * t.Cols
	if err := t.CheckUnquantized(); err != nil {
		return nil, fmt.Errorf("%s: %w", b.Name(), err)
	}
	raw, values := make([]byte, len(t.Data)), make([]float32, n)
	if err := t.ReadPart(raw, t.Data); err != nil {
		return nil, err
	}
	kernels.Expand(values, t.Type, raw)
	data, err := b.uploadFloats(values)
	if err != nil {
		return nil, err
	}
	return &vector{data, n}, nil
}

func (b *Backend) uploadFloats(values []float32) (kernels.Buffer, error) {
	raw := float32Bytes(values)
	data, err := b.Alloc(int64(len(raw)))
	if err != nil {
		return nil, err
	}
	b.Write(data, 0, raw)
	return data, nil
}

// rope holds cos and sin of each position and pair.
type rope struct {
	cos, sin kernels.Buffer
	max      int
}

func (r *rope) MaxPositions() int { return r.max }
func (r *rope) Bytes() int64      { return r.cos.Bytes() + r.sin.Bytes() }

func (r *rope) Free() {
	r.cos.Free()
	r.sin.Free()
}

// NewRope tabulates the angles.
func (b *Backend) NewRope(invFreq []float32, scale float32, maxPositions int) (kernels.Rope, error) {
	cos := make([]float32, 0, maxPositions*len(invFreq))
	sin := make([]float32, 0, maxPositions*len(invFreq))
	for pos := range maxPositions {
		for _, f := range invFreq {
			c, s := kernels.RopeAt(pos, f, scale)
			cos, sin = append(cos, c), append(sin, s)
		}
	}
	r := &rope{max: maxPositions}
	var err error
	if r.cos, err = b.uploadFloats(cos); err != nil {
		return nil, err
	}
	if r.sin, err = b.uploadFloats(sin); err != nil {
		r.cos.Free()
		return nil, err
	}
	return r, nil
}
