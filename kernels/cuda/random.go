package cuda

import (
	"fmt"

	"github.com/prefillonly/prefillonly/kernels"
)

// Random is a Backend whose matrices are made on the device, for measurements at shapes that would
// take minutes to upload: of a matrix it takes name and shape, and its Data is nil. Biases and
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
			uint64(m.at)+uint64(2*from), uint64(count), key, word(scale))
	}
}

// matrix makes the parts, one below the other.
func (r Random) matrix(parts ...kernels.HostTensor) (kernels.Buffer, error) {
	var elements int64
	for _, p := range parts {
		if p.Data != nil {
			return nil, fmt.Errorf("%s: %s has data, but is to be made on the device", r.Name(), p.Name)
		}
		if p.Cols != parts[0].Cols {
			return nil, fmt.Errorf("%s: %s has %d columns, %s has %d", r.Name(), p.Name, p.Cols, parts[0].Name, parts[0].Cols)
		}
		elements += int64(p.Rows) * int64(p.Cols)
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

// NewLinear stacks parts along their rows.
func (r Random) NewLinear(parts, bias []kernels.HostTensor) (kernels.Linear, error) {
	if len(parts) == 0 {
		return nil, fmt.Errorf("%s: a linear layer of no parts", r.Name())
	}
	l := &linear{in: parts[0].Cols}
	for _, p := range parts {
		l.out += p.Rows
	}
	var err error
	if l.weights, err = r.matrix(parts...); err != nil {
		return nil, err
	}
	if len(bias) > 0 {
		if l.bias, err = r.stackBias(parts, bias, l.out); err != nil {
			l.weights.Free()
			return nil, err
		}
	}
	return l, nil
}

// NewGatedLinear stacks gate over up.
func (r Random) NewGatedLinear(gate, up kernels.HostTensor) (kernels.Linear, error) {
	return r.NewLinear([]kernels.HostTensor{gate, up}, nil)
}

// NewTable makes an embedding or LM head.
func (r Random) NewTable(t kernels.HostTensor) (kernels.Table, error) {
	data, err := r.matrix(t)
	if err != nil {
		return nil, err
	}
	return &table{data, t.Rows, t.Cols}, nil
}

// Address is where a buffer of a Backend begins in device memory, for those who call its Device.
func Address(buf kernels.Buffer) Ptr { return buf.(*buffer).at }
