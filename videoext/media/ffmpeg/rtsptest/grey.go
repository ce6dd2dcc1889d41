package rtsptest

import (
	"github.com/prefillonly/prefillonly/videoext/media"
)

// Grey are grey frames in H.264 of the baseline profile whose sides are multiples of 16, of which a decoder keeps so many as references: a few
// bytes for each frame but the first, which has one for each macroblock.
func Grey(width, height, references, frames int) []media.Unit {
	units := make([]media.Unit, frames)
	for i := range units {
		var data []byte
		if i == 0 {
			data = append(parameterSets(width/16, height/16, references), intraFrame(width/16, height/16)...)
		} else {
			data = skippedFrame(width/16*(height/16), i)
		}
		units[i] = media.Unit{Data: data, Order: i}
	}
	return units
}

// bits writes a NAL unit's syntax elements (H.264, 7.2 and 9.1).
type bits struct {
	data []byte
	used int // of the last byte
}

func (b *bits) u(n, value int) {
	for i := n - 1; i >= 0; i-- {
		if b.used %= 8; b.used == 0 {
			b.data = append(b.data, 0)
		}
		b.data[len(b.data)-1] |= byte(value>>i&1) << (7 - b.used)
		b.used++
	}
}

func (b *bits) ue(values ...int) {
	for _, v := range values {
		length := 0
		for v+1 >= 2<<length {
			length++
		}
		b.u(2*length+1, v+1)
	}
}

// nalUnit is the unit behind its start code, with what keeps others out of it.
func (b *bits) nalUnit(kind byte) []byte {
	b.u(1, 1)
	out, zeros := []byte{0, 0, 0, 1, kind}, 0
	for _, c := range b.data {
		if zeros >= 2 && c <= 3 {
			out, zeros = append(out, 3), 0
		}
		if out = append(out, c); c == 0 {
			zeros++
		} else {
			zeros = 0
		}
	}
	return out
}

// parameterSets are the parameter sets.
func parameterSets(columns, rows, references int) []byte {
	var s, p bits
	s.u(24, 66<<16|62) // profile and level
	s.ue(0, 0, 2, references)
	s.u(1, 0)
	s.ue(columns-1, rows-1)
	s.u(4, 0b1100)
	p.ue(0, 0)
	p.u(2, 0)
	p.ue(0, 0, 0)
	p.u(3, 0)
	p.ue(0, 0, 0)
	p.u(3, 0b100)
	return append(s.nalUnit(0x67), p.nalUnit(0x68)...)
}

// intraFrame is a key frame, in slices that each fit into a packet.
func intraFrame(columns, rows int) (data []byte) {
	const most = 1 << 15
	each := max(1, most/columns)
	for row := 0; row < rows; row += each {
		var s bits
		s.ue(row*columns, 7, 0)
		s.u(4, 0)
		s.ue(0)
		s.u(2, 0)
		s.ue(0, 1)
		for range min(each, rows-row) * columns {
			s.u(8, 0b00100111) // predicted by the mean, nothing added
		}
		data = append(data, s.nalUnit(0x65)...)
	}
	return data
}

// skippedFrame is a frame that is the one before.
func skippedFrame(macroblocks, number int) []byte {
	var s bits
	s.ue(0, 5, 0)
	s.u(4, number%16)
	s.u(3, 0)
	s.ue(0, 1, macroblocks)
	return s.nalUnit(0x61)
}
