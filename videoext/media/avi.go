package media

import (
	"bufio"
	"encoding/binary"
	"io"
	"time"
)

// WriteAVI writes JPEG pictures of one size as a file of AVI with an index, each shown for so long.
func WriteAVI(to io.Writer, width, height int, each time.Duration, pictures [][]byte) error {
	order, n := binary.LittleEndian, uint32(len(pictures))
	numbers := func(all ...uint32) (b []byte) {
		for _, v := range all {
			b = order.AppendUint32(b, v)
		}
		return b
	}
	chunk := func(name string, parts ...[]byte) []byte {
		b := append([]byte(name), 0, 0, 0, 0)
		for _, p := range parts {
			b = append(b, p...)
		}
		order.PutUint32(b[4:], uint32(len(b)-8))
		return b
	}
	w, h, codec := uint32(width), uint32(height), order.Uint32([]byte("MJPG"))
	index, movie, largest := []byte{}, uint32(4), uint32(0)
	for _, p := range pictures {
		size := uint32(len(p))
		index = append(append(index, "00dc"...), numbers(aviKeyFrame, movie, size)...)
		movie, largest = movie+8+size+size%2, max(largest, size)
	}
	stream := chunk("strh", []byte("vids"), numbers(codec, 0, 0, 0, uint32(each.Milliseconds()), 1000, 0, n, largest, 1<<32-1, 0, 0, w|h<<16))
	format := chunk("strf", numbers(40, w, h, 1|24<<16, codec, 3*w*h, 0, 0, 0, 0))
	header := chunk("LIST", []byte("hdrl"),
		chunk("avih", numbers(uint32(each.Microseconds()), 0, 0, aviHasIndex, n, 0, 1, largest, w, h, 0, 0, 0, 0)),
		chunk("LIST", []byte("strl"), stream, format))
	index = chunk("idx1", index)
	out := bufio.NewWriter(to)
	write := func(parts ...[]byte) {
		for _, p := range parts {
			out.Write(p)
		}
	}
	write([]byte("RIFF"), numbers(4+uint32(len(header))+8+movie+uint32(len(index))), []byte("AVI "), header, []byte("LIST"), numbers(movie), []byte("movi"))
	for _, p := range pictures {
		write([]byte("00dc"), numbers(uint32(len(p))), p, make([]byte, len(p)%2))
	}
	write(index)
	return out.Flush()
}

// Flags of AVI.
const (
	aviKeyFrame = 0x10
	aviHasIndex = 0x10
)
