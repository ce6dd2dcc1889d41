package oip

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// fillElements is fill for a tensor of Bytes: strings in JSON; in binary data, each behind its length in 4 bytes.
func (d *decoder) fillElements(t *Tensor, from *source, binary []byte) (rest []byte, err error) {
	n, ok := countOf(t.Shape)
	if d.elements += n; !ok || n > maxElements || d.elements > maxElements {
		return nil, fmt.Errorf("BYTES of the shape %v; the tensors of a request may have %d elements of BYTES", t.Shape, maxElements)
	}
	if from.json == nil {
		t.Elements, err = splitElements(binary[:from.binary:from.binary], n)
		return binary[from.binary:], err
	}
	s := &scanner{data: d.data[:from.at+len(from.json)], at: from.at}
	walk := walker{scanner: s, shape: t.Shape, want: n}
	err = walk.read(func() error {
		text, err := s.readString()
		t.Elements = append(t.Elements, []byte(text))
		return err
	})
	return binary, err
}

// splitElements divides binary data into n elements.
func splitElements(data []byte, n int) (elements [][]byte, err error) {
	whole := len(data)
	for i := range n {
		if len(data) < 4 {
			return nil, fmt.Errorf("element %d of %d begins at byte %d of %d; 4 bytes of length are wanted", i, n, whole-len(data), whole)
		}
		size := binary.LittleEndian.Uint32(data)
		if data = data[4:]; uint64(size) > uint64(len(data)) {
			return nil, fmt.Errorf("element %d of %d claims %d bytes, and %d are left of binary_data_size", i, n, size, len(data))
		}
		elements = append(elements, data[:size:size])
		data = data[size:]
	}
	if len(data) > 0 {
		return nil, fmt.Errorf("%d bytes of %d are left behind the %d elements of the shape", len(data), whole, n)
	}
	return elements, nil
}

// countOf is the number of elements of a shape, if an int holds it.
func countOf(shape []int) (n int, ok bool) {
	n, ok = 1, true
	for _, d := range shape {
		hi, lo := bits.Mul64(uint64(n), uint64(d))
		n = int(lo)
		ok = ok && d >= 0 && hi == 0 && n >= 0
	}
	return n, ok
}
