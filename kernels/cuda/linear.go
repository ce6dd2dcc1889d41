package cuda

import (
	"fmt"
	"slices"

	"github.com/prefillonly/prefillonly/kernels"
)

// linear is a dense [out, in] matrix with an optional bias: of bfloat16, or of codes with a scale for
// each row.
type linear struct {
	weights, bias, scales kernels.Buffer // the latter two may be nil
	in, out               int
	k, n                  int // columns and rows of a product: of int8 whose activations are quantised, filled up
	rows                  int // in memory; a table's are more than n
	before                int // rows of a product that precede those of a view, so that it begins at a multiple
	typ                   kernels.DType
	weightOnly            bool
	pieces                []*linear // of codes: l in parts whose sums are in memory one at a time
}

func (l *linear) In() int  { return l.in }
func (l *linear) Out() int { return l.out }

func (l *linear) Bytes() int64 {
	n := int64(0)
	for _, m := range l.heldBuffers() {
		n += m.Bytes()
	}
	return n
}

func (l *linear) Free() {
	for _, m := range l.heldBuffers() {
		m.Free()
	}
}

func (l *linear) heldBuffers() []kernels.Buffer {
	return slices.DeleteFunc([]kernels.Buffer{l.weights, l.scales, l.bias}, func(m kernels.Buffer) bool { return m == nil })
}

func (l *linear) at() Ptr { return l.weights.(*buffer).at }

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
	l.k, l.n = multipleOf(l.in, l.paddingMultiple()), multipleOf(l.out, l.paddingMultiple())
	l.rows = l.n
	return l
}

// paddingMultiple is what columns and rows of a product are filled up to.
func (l *linear) paddingMultiple() int {
	if l.typ == kernels.I8 && !l.weightOnly {
		return codesMultiple
	}
	return 1
}

// viewRows is the view of rows [from, to), which ends with l and is not freed. For products it is filled up with the rows around
// it.
func (l *linear) viewRows(from, to int) *linear {
	view := func(m kernels.Buffer, size int) kernels.Buffer {
		if m == nil {
			return nil
		}
		memory, width := m.(*buffer), int64(size)
		return &buffer{memory.device, memory.at + Ptr(int64(from)*width), int64(to-from) * width}
	}
	p := *l
	p.weights, p.scales, p.bias = view(l.weights, l.k*heldSize(l.typ)), view(l.scales, 4), view(l.bias, 2)
	p.out, p.rows = to-from, to-from
	p.before = (l.before + from) % l.paddingMultiple()
	p.n = multipleOf(p.before+p.out, l.paddingMultiple())
	p.pieces = p.splitRows()
	return &p
}

// splitRows is l in as many rows as sumsCols allows, evenly.
func (l *linear) splitRows() []*linear {
	count := (l.out + sumsCols - 1) / sumsCols
	if count <= 1 {
		return []*linear{l}
	}
	var pieces []*linear
	width := multipleOf((l.out+count-1)/count, codesMultiple)
	for from := 0; from < l.out; from += width {
		pieces = append(pieces, l.viewRows(from, min(from+width, l.out)))
	}
	return pieces
}

// NewLinear stacks parts along their rows.
func (b *Backend) NewLinear(parts, bias []kernels.HostTensor) (kernels.Linear, error) {
	return b.buildLinear(parts, bias, b.stackWeights)
}

// buildLinear is a linear layer of parts, whose weights stack makes.
func (b *Backend) buildLinear(parts, bias []kernels.HostTensor, stack func(parts []kernels.HostTensor, l *linear) error) (kernels.Linear, error) {
	if len(parts) == 0 {
		return nil, fmt.Errorf("%s: a linear layer of no parts", b.Name())
	}
	l := newLinear(parts)
	if err := b.fillLinear(l, parts, bias, stack); err != nil {
		return nil, err
	}
	return l, nil
}

// fillLinear gives l its weights and bias, or frees it. What the device does not multiply is an error, so that no pass finds out.
func (b *Backend) fillLinear(l *linear, parts, bias []kernels.HostTensor, stack func(parts []kernels.HostTensor, l *linear) error) error {
	err := stack(parts, l)
	if err == nil && len(bias) > 0 {
		l.bias, err = b.stackBias(parts, bias, l.out)
	}
	if err == nil && l.typ.Scaled() {
		l.pieces = l.splitRows()
		if err = b.checkInt8Product(l); err != nil {
			err = fmt.Errorf("%s: tensor %q is int8 for activations in int8, which are not multiplied here: %w", b.Name(), parts[0].Name, err)
		}
	}
	if err != nil {
		l.Free()
	}
	return err
}

// stackWeights uploads the weights of parts.
func (b *Backend) stackWeights(parts []kernels.HostTensor, l *linear) error {
	for _, p := range parts {
		if err := p.CheckBeside(parts[0]); err != nil {
			return fmt.Errorf("%s: %w", b.Name(), err)
		}
	}
	if l.typ.Scaled() {
		return b.stackCodes(parts, l)
	}
	var err error
	l.weights, err = b.uploadStacked(parts, l.out*l.in)
	return err
}

// allocCodes is memory for a matrix of codes.
func (b *Backend) allocCodes(l *linear) (err error) {
	if l.scales, err = b.Alloc(4 * int64(l.out)); err != nil {
		return err
	}
	l.weights, err = b.Alloc(int64(l.k) * int64(l.rows))
	return err
}

// checkInt8Product says why the device does not multiply l in int8, if that is what it is to do.
func (b *Backend) checkInt8Product(l *linear) error {
	if b.operandType(l) != kernels.I8 {
		return nil
	}
	for _, p := range l.pieces {
		if err := b.device.Int8(p.n, p.k); err != nil {
			return err
		}
	}
	return nil
}

// stackCodes uploads the codes and the scales of parts.
func (b *Backend) stackCodes(parts []kernels.HostTensor, l *linear) error {
	if err := b.allocCodes(l); err != nil {
		return err
	}
	var codes, scales int64
	for _, p := range parts {
		raw := float32Bytes(p.Scale)
		b.Write(l.scales, scales, raw)
		scales += int64(len(raw))
		filled, err := filledUp(p, l.k)
		if err != nil {
			return err
		}
		n, err := b.uploadTensor(l.weights, codes, filled)
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
		if _, err := b.uploadTensor(dst, off, bias[i]); err != nil {
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

// uploadStacked uploads the tensors one after the other as bfloat16; together they have elements values.
func (b *Backend) uploadStacked(parts []kernels.HostTensor, elements int) (kernels.Buffer, error) {
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
		n, err := b.uploadTensor(dst, off, p)
		if err != nil {
			dst.Free()
			return nil, err
		}
		off += n
	}
	return dst, nil
}
