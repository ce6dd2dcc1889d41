package session

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/prefillonly/prefillonly/videoext"
)

var (
	errCut   = errors.New("it is cut")
	errLarge = errors.New("a number in it is too large")
)

// writer appends numbers and texts.
type writer struct{ data []byte }

func (w *writer) number(v int) { w.data = binary.AppendUvarint(w.data, uint64(v)) }
func (w *writer) float(v float64) {
	w.data = binary.LittleEndian.AppendUint64(w.data, math.Float64bits(v))
}
func (w *writer) float32(v float32) {
	w.data = binary.LittleEndian.AppendUint32(w.data, math.Float32bits(v))
}

func (w *writer) writeBytes(b []byte) {
	w.number(len(b))
	w.data = append(w.data, b...)
}

// reader reads what a writer appended, until something is wrong.
type reader struct {
	data []byte
	err  error
}

func (r *reader) takeBytes(n int) []byte {
	if r.err == nil && (n < 0 || n > len(r.data)) {
		r.err = errCut
	}
	if r.err != nil {
		return nil
	}
	taken := r.data[:n:n]
	r.data = r.data[n:]
	return taken
}

func (r *reader) number() int {
	v, n := binary.Uvarint(r.data)
	if r.takeBytes(n); r.err == nil && n == 0 {
		r.err = errCut
	}
	if r.err == nil && v > math.MaxInt32 {
		r.err = errLarge
	}
	if r.err != nil {
		return 0
	}
	return int(v)
}

func (r *reader) float() float64 {
	b := r.takeBytes(8)
	if b == nil {
		return 0
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b))
}

func (r *reader) float32() float32 {
	b := r.takeBytes(4)
	if b == nil {
		return 0
	}
	v := math.Float32frombits(binary.LittleEndian.Uint32(b))
	if v != v {
		r.fail(errors.New("a number in it is NaN"))
	}
	return v
}

func (r *reader) readBytes() []byte { return r.takeBytes(r.number()) }

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// readListLength reads how many things follow: at most so many, each of at least so many bytes, so that what is claimed costs no more memory than what came.
func (r *reader) readListLength(most, each int) int {
	n := r.number()
	switch {
	case r.err != nil:
	case n > len(r.data)/each:
		r.fail(fmt.Errorf("it says that %d things follow, in %d bytes", n, len(r.data)))
	case n > most:
		r.fail(fmt.Errorf("it has a list of %d things; %d are the most", n, most))
	default:
		return n
	}
	return 0
}

func writeList[T any](w *writer, all []T, one func(*writer, T)) {
	w.number(len(all))
	for _, v := range all {
		one(w, v)
	}
}

func readList[T any](r *reader, most, each int, one func(*reader) T) []T {
	n := r.readListLength(most, each)
	if n == 0 {
		return nil
	}
	all := make([]T, n)
	for i := range all {
		all[i] = one(r)
	}
	return all
}

func writeNumber(w *writer, v int) { w.number(v) }

// readFrameNumbers reads numbers of frames of a segment, which increase.
func (r *reader) readFrameNumbers(of int) []int {
	frames := readList(r, of, 1, (*reader).number)
	for i, f := range frames {
		if f >= of || i > 0 && f <= frames[i-1] {
			r.fail(fmt.Errorf("its frames %v are not some of %d, in order", frames, of))
			break
		}
	}
	return frames
}

func writeRegion(w *writer, v videoext.Region) {
	for _, c := range [...]float32{v.X0, v.Y0, v.X1, v.Y1} {
		w.float32(c)
	}
}

const regionBytes = 16

func readRegion(r *reader) videoext.Region {
	v := videoext.Region{X0: r.float32(), Y0: r.float32(), X1: r.float32(), Y1: r.float32()}
	if r.err == nil && !(v.X0 >= 0 && v.X0 <= v.X1 && v.X1 <= 1 && v.Y0 >= 0 && v.Y0 <= v.Y1 && v.Y1 <= 1) {
		r.fail(fmt.Errorf("a region %v is not in the frame", v))
	}
	return v
}

func writeRegions(w *writer, v []videoext.Region) { writeList(w, v, writeRegion) }
func readRegions(r *reader) []videoext.Region     { return readList(r, maxBoxes, regionBytes, readRegion) }

func writeDetection(w *writer, d videoext.Detection) {
	writeRegion(w, d.Region)
	w.number(d.Class)
	w.float32(d.Score)
}

func readDetection(r *reader) videoext.Detection {
	return videoext.Detection{Region: readRegion(r), Class: r.number(), Score: r.float32()}
}

func writeDetections(w *writer, d []videoext.Detection) { writeList(w, d, writeDetection) }
func readDetections(r *reader) []videoext.Detection {
	return readList(r, maxBoxes, regionBytes+5, readDetection)
}
