package images

import (
	"encoding/binary"
	"math"

	"github.com/prefillonly/prefillonly/engine"
)

// tap says of which two samples, and in which shares, one is made.
type tap struct {
	a, b  int
	share float32 // of b; a has the rest
}

// tapsOf are those of n samples made of size others: bilinear, with pixels as squares (centres at halves), and the edges
// repeated. So do OpenCV's INTER_LINEAR and ONNX's half_pixel; nothing is averaged when a picture becomes much smaller.
func tapsOf(n, size int) []tap {
	taps := make([]tap, n)
	for i := range taps {
		at := (float64(i)+0.5)*float64(size)/float64(n) - 0.5
		low := math.Floor(at)
		taps[i] = tap{a: max(int(low), 0), b: min(int(low)+1, size-1), share: float32(at - low)}
	}
	return taps
}

// columnsOf are the samples that taps want, in their order; the taps count among these then.
func columnsOf(taps []tap) (columns []int) {
	index := func(at int) int {
		if n := len(columns); n == 0 || columns[n-1] < at {
			columns = append(columns, at)
		}
		for i := len(columns) - 1; ; i-- { // the last, or one before
			if columns[i] == at {
				return i
			}
		}
	}
	for i := range taps {
		taps[i].a = index(taps[i].a)
		taps[i].b = index(taps[i].b)
	}
	return columns
}

// Write makes of a picture the part of the input that is its own, in out, which has Bytes of its size.
func (to *Target) Write(out []byte, p *Picture) {
	height, width := to.inputSize(p.Height, p.Width)
	h, w := to.Inner(height, width, p.Height, p.Width)
	xs, ys := tapsOf(w, p.Width), tapsOf(h, p.Height)
	columns := columnsOf(xs)
	s := sampler{p: p, xs: xs, columns: columns, row: make([]byte, 3*len(columns))}
	for i := range s.lines {
		s.lines[i] = line{y: -1, values: make([]float32, 3*w)}
	}
	blend := make([]float32, 3*width)
	for i := 3 * w; i < len(blend); i++ {
		blend[i] = float32(to.Grey)
	}
	for y, t := range ys {
		a, b := s.resizedRow(t.a), s.resizedRow(t.b)
		for i := range a {
			blend[i] = a[i] + t.share*(b[i]-a[i])
		}
		to.storeRow(out, height, width, y, blend)
	}
	for i := range 3 * w {
		blend[i] = float32(to.Grey)
	}
	for y := h; y < height; y++ {
		to.storeRow(out, height, width, y, blend)
	}
}

// sampler makes rows of the width that is wanted, and keeps the last two.
type sampler struct {
	p       *Picture
	columns []int
	xs      []tap // of columns
	row     []byte
	lines   [2]line
	last    int // of lines, the one that was asked for last
}

type line struct {
	y      int
	values []float32
}

// resizedRow is row y of the picture, resized.
func (s *sampler) resizedRow(y int) []float32 {
	for i := range s.lines {
		if s.lines[i].y == y {
			s.last = i
			return s.lines[i].values
		}
	}
	s.last = 1 - s.last
	l := &s.lines[s.last]
	l.y = y
	s.p.row(y, s.columns, s.row)
	for x, t := range s.xs {
		a, b, to := s.row[3*t.a:][:3], s.row[3*t.b:][:3], l.values[3*x:][:3]
		for c := range to {
			v := float32(a[c])
			to[c] = v + t.share*(float32(b[c])-v)
		}
	}
	return l.values
}

// storeRow writes row y of the input, of RGB from 0 to 255.
func (to *Target) storeRow(out []byte, height, width, y int, rgb []float32) {
	for c := range 3 {
		from := c
		if to.BGR {
			from = 2 - c
		}
		at, step := (y*width)*3+c, 3
		if to.ChannelsFirst {
			at, step = (c*height+y)*width, 1
		}
		to.storeChannel(out, at, step, rgb[from:], c)
	}
}

// storeChannel writes each third of values, normalised, to the elements of out from at on, step apart.
func (to *Target) storeChannel(out []byte, at, step int, values []float32, channel int) {
	mean, scale := to.mean[channel], to.scale[channel]
	size := to.Type.Size()
	for i := 0; i < len(values); i += 3 {
		v := values[i]
		if !to.plain {
			v = (v - mean) / scale
		}
		switch o := out[at*size:]; to.Type {
		case engine.FP32:
			binary.LittleEndian.PutUint32(o, math.Float32bits(v))
		case engine.FP16:
			binary.LittleEndian.PutUint16(o, toHalf(v))
		default:
			o[0] = byte(min(max(math.RoundToEven(float64(v)), 0), 255))
		}
		at += step
	}
}

// toHalf rounds to FP16, to the nearest and of two to the even; what is too large becomes infinite.
func toHalf(v float32) uint16 {
	bits := math.Float32bits(v)
	sign := uint16(bits >> 16 & 0x8000)
	bits &= 0x7fffffff
	switch {
	case bits > 0x7f800000: // no number
		return sign | 0x7e00
	case bits >= 0x477ff000: // rounds to more than 65504
		return sign | 0x7c00
	case bits < 0x38800000: // below 2^-14: a multiple of 2^-24
		return sign | uint16(math.RoundToEven(float64(math.Float32frombits(bits))*(1<<24)))
	}
	bits += 0xfff + bits>>13&1
	return sign | uint16((bits-0x38000000)>>13)
}
