package cuda

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/kernels"
)

// linear is a dense [out, in] matrix with an optional bias: of bfloat16, or of codes with a scale for
// each row.
type linear struct {
	weights, bias, scales kernels.Buffer // the latter two may be nil
	in, out               int
}

func (l *linear) In() int  { return l.in }
func (l *linear) Out() int { return l.out }

func (l *linear) Bytes() int64 {
	n := int64(0)
	for _, m := range l.buffers() {
		n += m.Bytes()
	}
	return n
}

func (l *linear) Free() {
	for _, m := range l.buffers() {
		m.Free()
	}
}

func (l *linear) buffers() []kernels.Buffer {
	return slices.DeleteFunc([]kernels.Buffer{l.weights, l.scales, l.bias}, func(m kernels.Buffer) bool { return m == nil })
}

func (l *linear) scalesPtr() Ptr { return l.scales.(*buffer).at }

func (l *linear) biasPtr() Ptr {
	if l.bias == nil {
		return 0
	}
	return l.bias.(*buffer).at
}

// NewLinear stacks parts along their rows.
func (b *Backend) NewLinear(parts, bias []kernels.HostTensor) (kernels.Linear, error) {
	if len(parts) == 0 {
		return nil, fmt.Errorf("%s: a linear layer of no parts", b.Name())
	}
	l := &linear{in: parts[0].Cols}
	for _, p := range parts {
		if err := b.checkPart(p, parts[0]); err != nil {
			return nil, err
		}
		l.out += p.Rows
	}
	var err error
	if parts[0].Type == kernels.F8E4M3 {
		err = b.stackFP8(parts, l)
	} else {
		l.weights, err = b.stack(parts, l.out*l.in)
	}
	if err == nil && len(bias) > 0 {
		l.bias, err = b.stackBias(parts, bias, l.out)
	}
	if err != nil {
		l.Free()
		return nil, err
	}
	return l, nil
}

// checkPart checks one of the parts of a matrix.
func (b *Backend) checkPart(p, first kernels.HostTensor) error {
	if p.Type == kernels.I8 {
		return fmt.Errorf("%s: tensor %q is %s, which this backend does not multiply; those of processors do", b.Name(), p.Name, p.Type)
	}
	if err := p.CheckBeside(first); err != nil {
		return fmt.Errorf("%s: %w", b.Name(), err)
	}
	return nil
}

// stackBias uploads the biases of parts; a bias without data is zero.
func (b *Backend) stackBias(parts, bias []kernels.HostTensor, out int) (kernels.Buffer, error) {
	if len(bias) != len(parts) {
		return nil, fmt.Errorf("%s: %d biases for %d parts of %s", b.Name(), len(bias), len(parts), parts[0].Name)
	}
	dst, err := b.Alloc(2 * int64(out))
	if err != nil {
		return nil, err
	}
	var off int64
	for i, part := range parts {
		if len(bias[i].Data) > 0 {
			if int64(len(bias[i].Data)) != int64(part.Rows)*bias[i].Type.Size() {
				dst.Free()
				return nil, fmt.Errorf("%s: %s holds %d bytes, %d values of %s need %d", b.Name(), bias[i].Name, len(bias[i].Data), part.Rows, bias[i].Type, int64(part.Rows)*bias[i].Type.Size())
			}
			if _, err := b.upload(dst, off, bias[i]); err != nil {
				dst.Free()
				return nil, err
			}
		}
		off += 2 * int64(part.Rows)
	}
	return dst, nil
}

// NewGatedLinear stacks gate over up.
func (b *Backend) NewGatedLinear(gate, up kernels.HostTensor) (kernels.Linear, error) {
	if gate.Rows != up.Rows {
		return nil, fmt.Errorf("%s: %s has %d rows, %s has %d", b.Name(), gate.Name, gate.Rows, up.Name, up.Rows)
	}
	return b.NewLinear([]kernels.HostTensor{gate, up}, nil)
}

// stack uploads the tensors one after the other as bfloat16; together they have elements values.
func (b *Backend) stack(parts []kernels.HostTensor, elements int) (kernels.Buffer, error) {
	total := 0
	for _, p := range parts {
		if err := p.CheckUnquantized(); err != nil {
			return nil, fmt.Errorf("%s: %w", b.Name(), err)
		}
		total += p.Rows * p.Cols
	}
	if total != elements {
		return nil, fmt.Errorf("%s: %s and the tensors beside it hold %d values, the layer needs %d", b.Name(), parts[0].Name, total, elements)
	}
	dst, err := b.Alloc(int64(elements) * 2)
	if err != nil {
		return nil, err
	}
	var off int64
	for _, p := range parts {
		n, err := b.upload(dst, off, p)
		if err != nil {
			dst.Free()
			return nil, err
		}
		off += n
	}
	return dst, nil
}

// upload writes t at off, FP8 as it is and all else as bfloat16, and returns the bytes written.
func (b *Backend) upload(dst kernels.Buffer, off int64, t kernels.HostTensor) (int64, error) {
	bytes := int64(len(t.Data)) / t.Type.Size() * int64(heldSize(t.Type))
	s, err := b.streamTo()
	if err != nil {
		return 0, err
	}
	return bytes, s.upload(dst.(*buffer).at+Ptr(off), t)
}

// roundBF16 rounds to nearest even; NaN stays NaN.
func roundBF16(f float32) uint16 {
	u := math.Float32bits(f)
	if f != f {
		return uint16(u>>16) | 0x40
	}
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}

// hostFloat reads one value of a checkpoint.
func hostFloat(t kernels.DType, data []byte) float32 {
	switch t {
	case kernels.F32:
		return math.Float32frombits(binary.LittleEndian.Uint32(data))
	case kernels.BF16:
		return math.Float32frombits(uint32(binary.LittleEndian.Uint16(data)) << 16)
	default:
		return fromHalf(binary.LittleEndian.Uint16(data))
	}
}

// fromHalf converts IEEE binary16.
func fromHalf(h uint16) float32 {
	sign, exponent, fraction := uint32(h>>15)<<31, uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch exponent {
	case 0: // zero and subnormals: fraction * 2^-24
		f := float32(fraction) / (1 << 24)
		return math.Float32frombits(math.Float32bits(f) | sign)
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}

// table is a dense [rows, cols] bfloat16 matrix.
type table struct {
	kernels.Buffer
	rows, cols int
}

func (t *table) Rows() int { return t.rows }
func (t *table) Cols() int { return t.cols }

// NewTable uploads an embedding or LM head.
func (b *Backend) NewTable(t kernels.HostTensor) (kernels.Table, error) {
	data, err := b.stack([]kernels.HostTensor{t}, t.Rows*t.Cols)
	if err != nil {
		return nil, err
	}
	return &table{data, t.Rows, t.Cols}, nil
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
	raw := make([]byte, 0, 4*len(values))
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
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
			angle := float64(float32(pos) * f)
			cos = append(cos, float32(math.Cos(angle))*scale)
			sin = append(sin, float32(math.Sin(angle))*scale)
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
