package cuda

import (
	"fmt"

	"github.com/prefillonly/prefillonly/kernels"
)

// Random is a Backend whose matrices are made on the device, for measurements at shapes that would
// take minutes to upload: of a matrix it takes name, type and shape, and its Data is nil. Biases and
// normalisation weights are copied as usual.
type Random struct {
	*Backend
	// Stream is where a matrix's numbers begin and what they are multiplied with, as engine/weights'
	// Random has it.
	Stream func(name string, cols int) (key uint64, scale float32)
}

var _ kernels.Backend = Random{}

// fillBlocks is enough blocks of threads to fill any GPU.
const fillBlocks = 4096

// Fill sets bfloat16 elements [from, from+count) of dst to scaled sums of splitmix64's numbers from
// key on: roughly normal, with a standard deviation of 37837 scale.
func (b *Backend) Fill(dst kernels.Buffer, from, count int64, key uint64, scale float32) {
	m := dst.(*buffer)
	if from < 0 || count < 0 || 2*(from+count) > m.bytes {
		b.fail("fill of %d elements at %d in a buffer of %d bytes", count, from, m.bytes)
		return
	}
	if count > 0 {
		b.device.Launch("pf_fill_random", [2]int{int(min(fillBlocks, (count+block-1)/block)), 1}, block,
			uint64(m.at)+uint64(2*from), uint64(count), key, floatArg(scale))
	}
}

// Codes is a matrix in device memory: F8E4M3 or I8 in rows Stride bytes apart, from byte From of Codes on, and the scales of the
// rows from element Row of Scales on.
type Codes struct {
	Type               kernels.DType
	Codes, Scales      kernels.Buffer
	From               int64
	Row                int
	Rows, Cols, Stride int
}

// FillCodes sets a matrix of codes to what Fill would set in bfloat16: the largest number of a row has the largest code.
func (b *Backend) FillCodes(c Codes, key uint64, scale float32) {
	m, s := c.Codes.(*buffer), c.Scales.(*buffer)
	if c.From < 0 || c.Row < 0 || c.Stride < c.Cols || c.From+int64(c.Rows)*int64(c.Stride) > m.bytes || 4*int64(c.Row+c.Rows) > s.bytes {
		b.fail("fill of %d rows of %d codes, %d apart, at %d in a buffer of %d bytes, scales at %d of %d bytes", c.Rows, c.Cols, c.Stride, c.From, m.bytes, c.Row, s.bytes)
		return
	}
	b.device.Launch("pf_fill_random"+codesSuffix(c.Type), [2]int{c.Rows, 1}, block, uint64(m.at)+uint64(c.From), uint64(c.Stride), uint64(s.at)+uint64(4*c.Row), uint64(c.Cols), key, floatArg(scale))
}

// check refuses parts with data, and parts that differ in columns or type; it counts the elements.
func (r Random) check(parts []kernels.HostTensor) (elements int64, err error) {
	for _, p := range parts {
		switch {
		case p.Data != nil:
			return 0, fmt.Errorf("%s: %s has data, but is to be made on the device", r.Name(), p.Name)
		case p.Cols != parts[0].Cols || p.Type != parts[0].Type || p.WeightOnly != parts[0].WeightOnly:
			return 0, fmt.Errorf("%s: %s is %s of %d columns, %s is %s of %d", r.Name(), p.Name, p.Type, p.Cols, parts[0].Name, parts[0].Type, parts[0].Cols)
		}
		elements += int64(p.Rows) * int64(p.Cols)
	}
	return elements, nil
}

// makeMatrix makes the parts as bfloat16, one below the other.
func (r Random) makeMatrix(parts ...kernels.HostTensor) (kernels.Buffer, error) {
	elements, err := r.check(parts)
	if err != nil {
		return nil, err
	}
	dst, err := r.Alloc(2 * elements)
	if err != nil {
		return nil, err
	}
	var from int64
	for _, p := range parts {
		key, scale := r.Stream(p.Name, p.Cols)
		count := int64(p.Rows) * int64(p.Cols)
		r.Fill(dst, from, count, key, scale)
		from += count
	}
	return dst, nil
}

// makeWeights makes the parts in the form that l has them.
func (r Random) makeWeights(parts []kernels.HostTensor, l *linear) (err error) {
	if l.typ.Scaled() {
		return r.makeCodes(parts, l)
	}
	l.weights, err = r.makeMatrix(parts...)
	return err
}

// makeCodes makes the parts as codes, one below the other, with a scale for each row.
func (r Random) makeCodes(parts []kernels.HostTensor, l *linear) error {
	if _, err := r.check(parts); err != nil {
		return err
	}
	if err := r.allocCodes(l); err != nil {
		return err
	}
	c := Codes{Type: l.typ, Codes: l.weights, Scales: l.scales, Cols: l.in, Stride: l.k}
	for _, p := range parts {
		key, scale := r.Stream(p.Name, p.Cols)
		c.Rows = p.Rows
		r.FillCodes(c, key, scale)
		c.From, c.Row = c.From+int64(p.Rows)*int64(l.k), c.Row+p.Rows
	}
	return nil
}

// NewLinear stacks parts along their rows.
func (r Random) NewLinear(parts, bias []kernels.HostTensor) (kernels.Linear, error) {
	return r.buildLinear(parts, bias, r.makeWeights)
}

// NewGatedLinear stacks gate over up.
func (r Random) NewGatedLinear(gate, up kernels.HostTensor) (kernels.Linear, error) {
	return r.NewLinear([]kernels.HostTensor{gate, up}, nil)
}

// NewTable makes an embedding or LM head.
func (r Random) NewTable(t kernels.HostTensor) (kernels.Table, error) {
	return r.tableOf(t, r.makeWeights)
}
