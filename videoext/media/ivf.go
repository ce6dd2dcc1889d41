package media

import (
	"bufio"
	"encoding/binary"
	"io"
)

// WriteIVF writes segments without B-frames, one after the other, as a file of IVF (the container of libvpx's tools), whose frames are
// numbered and stand for 1/rate seconds each.
func WriteIVF(to io.Writer, width, height, rate int, segments []*Segment) error {
	out := bufio.NewWriter(to)
	frames := 0
	for _, s := range segments {
		frames += len(s.Units)
	}
	order := binary.LittleEndian
	header := append([]byte("DKIF"), 0, 0, 32, 0)
	header = append(header, "H264"...)
	header = order.AppendUint16(header, uint16(width))
	header = order.AppendUint16(header, uint16(height))
	header = order.AppendUint32(header, uint32(rate))
	header = order.AppendUint32(header, 1)
	header = order.AppendUint32(header, uint32(frames))
	out.Write(order.AppendUint32(header, 0))
	number := uint64(0)
	for _, s := range segments {
		for _, u := range s.Units {
			head := order.AppendUint64(order.AppendUint32(nil, uint32(len(u.Data))), number)
			number++
			out.Write(head)
			out.Write(u.Data)
		}
	}
	return out.Flush()
}
