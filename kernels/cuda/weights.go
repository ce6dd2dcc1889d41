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
	k, n                  int // columns and rows in memory: of int8 whose activations are quantised, filled up with zeros
	typ                   kernels.DType
	weightOnly            bool
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

// newLinear is the shape of stacked parts.
func newLinear(parts []kernels.HostTensor) *linear {
	l := &linear{in: parts[0].Cols, typ: kernels.BF16}
	if parts[0].Type.Scaled() {
		l.typ, l.weightOnly = parts[0].Type, parts[0].WeightOnly
	}
	for _, p := range parts {
		l.out += p.Rows
	}
	l.k, l.n = l.in, l.out
	if l.typ == kernels.I8 && !l.weightOnly {
		l.k, l.n = multipleOf(l.in, codesMultiple), multipleOf(l.out, codesMultiple)
	}
	return l
}

// NewLinear stacks parts along their rows.
func (b *Backend) NewLinear(parts, bias []kernels.HostTensor) (kernels.Linear, error) {
	return b.stacked(parts, bias, func(l *linear) error {
		for _, p := range parts {
			if err := p.CheckBeside(parts[0]); err != nil {
				return fmt.Errorf("%s: %w", b.Name(), err)
			}
		}
		if l.typ.Scaled() {
			return b.stackCodes(parts, l)
		}
		var err error
		l.weights, err = b.stack(parts, l.out*l.in)
		return err
	})
}

// stacked is a layer of parts whose weights take makes.
func (b *Backend) stacked(parts, bias []kernels.HostTensor, take func(l *linear) error) (kernels.Linear, error) {
	if len(parts) == 0 {
		return nil, fmt.Errorf("%s: a linear layer of no parts", b.Name())
	}
	l := newLinear(parts)
	err := take(l)
	if err == nil && len(bias) > 0 {
		l.bias, err = b.stackBias(parts, bias, l.out)
	}
	if err != nil {
		l.Free()
		return nil, err
	}
	return l, nil
}

// allocCodes is memory for a matrix of codes. Where the device does not multiply it, the error says why, so that no pass finds
// out.
func (b *Backend) allocCodes(name string, l *linear) (err error) {
	if b.operandType(l) == kernels.I8 {
		if err := b.device.Int8(l.n, l.k); err != nil {
			return fmt.Errorf("%s: tensor %q is int8 for activations in int8, which are not multiplied here: %w", b.Name(), name, err)
		}
	}
	if l.scales, err = b.Alloc(4 * int64(l.out)); err != nil {
		return err
	}
	l.weights, err = b.Alloc(int64(l.k) * int64(l.n))
	return err
}

// stackCodes uploads the codes and the scales of parts.
func (b *Backend) stackCodes(parts []kernels.HostTensor, l *linear) error {
	if err := b.allocCodes(parts[0].Name, l); err != nil {
		return err
	}
	var codes, scales int64
	for _, p := range parts {
		raw := rawFloats(p.Scale)
		b.Write(l.scales, scales, raw)
		scales += int64(len(raw))
		filled, err := filledUp(p, l.k)
		if err != nil {
			return err
		}
		n, err := b.upload(l.weights, codes, filled)
		if err != nil {
			return err
		}
		codes += n
	}
	return nil
}

// filledUp is codes with rows of so many columns, the last ones zeros.
func filledUp(t kernels.HostTensor, cols int) (kernels.HostTensor, error) {
	if t.Cols == cols {
		return t, nil
	}
	data := make([]byte, t.Rows*cols)
	for i := range t.Rows {
		if err := t.ReadPart(data[i*cols:i*cols+t.Cols], t.Data[i*t.Cols:(i+1)*t.Cols]); err != nil {
			return t, err
		}
	}
	t.Cols, t.Data, t.File = cols, data, nil
	return t, nil
}

// stackBias uploads the biases of parts; a bias without data is zero.
func (b *Backend) stackBias(parts, bias []kernels.HostTensor, out int) (kernels.Buffer, error) {
	if len(bias) != len(parts) {
		return nil, fmt.Errorf("%s: %d biases for %d parts of %s", b.Name(), len(bias), len(parts), parts[0].Name)
	}
	for i, part := range parts {
		switch t := bias[i]; {
		case len(t.Data) == 0:
		case t.Type.Scaled():
			return nil, fmt.Errorf("%s: %s is %s, which only the weights of linear layers may be", b.Name(), t.Name, t.Type)
		case int64(len(t.Data)) != int64(part.Rows)*t.Type.Size():
			return nil, fmt.Errorf("%s: %s holds %d bytes, %d values of %s need %d", b.Name(), t.Name, len(t.Data), part.Rows, t.Type, int64(part.Rows)*t.Type.Size())
		}
	}
	dst, err := b.Alloc(2 * int64(out))
	if err != nil {
		return nil, err
	}
	var off int64
	for i, part := range parts {
		if _, err := b.upload(dst, off, bias[i]); err != nil {
			dst.Free()
			return nil, err
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

// upload writes t at off, codes as they are and all else as bfloat16, and returns the bytes written.
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

func rawFloats(values []float32) []byte {
	raw := make([]byte, 0, 4*len(values))
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return raw
}

func (b *Backend) uploadFloats(values []float32) (kernels.Buffer, error) {
	raw := rawFloats(values)
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
