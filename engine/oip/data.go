package oip

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"github.com/prefillonly/prefillonly/engine"
)

// walker reads the elements of data, flat or nested as the shape is.
type walker struct {
	*scanner
	shape []int
	want  int // elements
	got   int
}

// read calls each at every element.
func (w *walker) read(each func() error) error {
	deep := w.bracketDepth()
	if deep == 0 {
		return w.syntaxError("%s, want data as an array", w.describeNext())
	}
	if deep != 1 && deep != len(w.shape) {
		return fmt.Errorf("data is nested %d deep; the shape %v wants it flat, or %d deep", deep, w.shape, len(w.shape))
	}
	levels := w.shape
	if deep == 1 {
		levels = []int{w.want}
	}
	if err := w.readLevel(levels, each); err != nil {
		return err
	}
	if w.peekByte() != 0 || w.at < len(w.data) {
		return w.syntaxError("%s, want the end of data", w.describeNext())
	}
	return nil
}

// bracketDepth is the number of brackets that data begins with.
func (w *walker) bracketDepth() int {
	s := *w.scanner
	n := 0
	for s.acceptByte('[') {
		n++
	}
	return n
}

// readLevel reads an array of levels[0] elements, or arrays of the other levels.
func (w *walker) readLevel(levels []int, each func() error) error {
	if err := w.expectByte('['); err != nil {
		return err
	}
	n := 0
	for ; !w.acceptByte(']'); n++ {
		if n == levels[0] {
			return w.syntaxError("data has more than %d elements here, which is what the shape %v has", n, w.shape)
		}
		if n > 0 {
			if err := w.expectByte(','); err != nil {
				return err
			}
		}
		if err := w.readBelowLevel(levels[1:], each); err != nil {
			return err
		}
	}
	if n < levels[0] {
		return w.syntaxError("data has %d elements before here, where the shape %v has %d", n, w.shape, levels[0])
	}
	return nil
}

// readBelowLevel reads an element, or an array of the levels below.
func (w *walker) readBelowLevel(levels []int, each func() error) error {
	if len(levels) > 0 {
		return w.readLevel(levels, each)
	}
	if w.peekByte() == '[' {
		return w.syntaxError("data is nested deeper here than where it begins")
	}
	err := each()
	w.got++
	return err
}

// decodeData reads n elements of a type from data, which is where s is.
func decodeData(s *scanner, t engine.DType, shape []int, n int) ([]byte, error) {
	if t == engine.FP16 || t == engine.BF16 {
		return nil, fmt.Errorf("%v is not defined in JSON; send it as binary data", t)
	}
	out := make([]byte, 0, n*t.Size())
	w := walker{scanner: s, shape: shape, want: n}
	each := func() (err error) { out, err = w.appendInteger(out, t); return err }
	switch t {
	case engine.FP32, engine.FP64:
		each = func() (err error) { out, err = w.appendFloat(out, t); return err }
	case engine.Bool:
		each = func() (err error) { out, err = w.appendBool(out); return err }
	}
	err := w.read(each)
	return out, err
}

// appendFloat appends a number, which is read as FP64 and rounded to its type.
func (w *walker) appendFloat(out []byte, t engine.DType) ([]byte, error) {
	d, err := w.number()
	if err != nil {
		return out, fmt.Errorf("element %d of data: %w; NaN and infinities are no JSON, and can be sent as binary data", w.got, err)
	}
	v, err := d.roundToFloat64()
	if err != nil || t == engine.FP32 && math.IsInf(float64(float32(v)), 0) {
		return out, fmt.Errorf("element %d of data is %.40s, which %v does not hold", w.got, d.text, t)
	}
	if t == engine.FP32 {
		return binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(v))), nil
	}
	return binary.LittleEndian.AppendUint64(out, math.Float64bits(v)), nil
}

// appendInteger appends an integer of any type.
func (w *walker) appendInteger(out []byte, t engine.DType) ([]byte, error) {
	d, err := w.number()
	if err != nil {
		return out, fmt.Errorf("element %d of data: %w", w.got, err)
	}
	var bits uint64
	if width := 8 * t.Size(); t >= engine.Int8 {
		var v int64
		v, err = strconv.ParseInt(string(d.text), 10, width)
		bits = uint64(v)
	} else {
		bits, err = strconv.ParseUint(string(d.text), 10, width)
	}
	if err != nil {
		return out, fmt.Errorf("element %d of data is %.40s; want an integer that %v holds", w.got, d.text, t)
	}
	var raw [8]byte
	binary.LittleEndian.PutUint64(raw[:], bits)
	return append(out, raw[:t.Size()]...), nil
}

// appendBool appends true or false, or 1 or 0.
func (w *walker) appendBool(out []byte) ([]byte, error) {
	switch w.peekByte() {
	case '1':
		w.at++
		return append(out, 1), nil
	case '0':
		w.at++
		return append(out, 0), nil
	}
	v, err := w.readBool(fmt.Sprintf("element %d of data", w.got))
	if v {
		return append(out, 1), err
	}
	return append(out, 0), err
}
