package media

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"time"
)

// Segment is some frames encoded as H.264, of which the first begins a new sequence (IDR): it is decoded alone.
type Segment struct {
	Width, Height int
	Rate          float64 // frames in a second
	Units         []Unit  // in the order in which they are decoded
}

// Unit is the access unit of one frame: NAL units, each behind a start code (H.264, annex B).
type Unit struct {
	Data  []byte
	Order int           // which frame of the segment this is, in the order of time
	Index int           // the frame's, in its source
	Time  time.Duration // the frame's, in its source
}

// NALBytes is how many bytes the frames' NAL units have, start codes included.
func (s *Segment) NALBytes() (n int) {
	for _, u := range s.Units {
		n += len(u.Data)
	}
	return n
}

// NAL is a NAL unit behind its start code.
type NAL struct {
	Type byte
	Data []byte // the start code included
}

// Types of NAL units (H.264, table 7-1).
const (
	NALSlice    = 1
	NALIDR      = 5 // a slice of a picture that begins a new sequence
	NALSequence = 7 // a sequence parameter set
	NALPicture  = 8 // a picture parameter set
)

// NALUnits are those of an access unit, in order; none if it does not begin with a start code.
func NALUnits(unit []byte) (units []NAL) {
	if zeros := len(unit) - len(bytes.TrimLeft(unit, "\x00")); zeros < 2 || zeros == len(unit) || unit[zeros] != 1 {
		return nil
	}
	begin, header := 0, bytes.IndexByte(unit, 1)+1
	for header < len(unit) {
		end, next := len(unit), len(unit)
		if at := bytes.Index(unit[header:], []byte{0, 0, 1}); at >= 0 {
			end, next = header+at, header+at+3
			if unit[end-1] == 0 { // a start code of four bytes
				end--
			}
		}
		units = append(units, NAL{unit[header] & 0x1f, unit[begin:end]})
		begin, header = end, next
	}
	return units
}

func hasNALKind(units []NAL, kinds ...byte) bool {
	return slices.ContainsFunc(units, func(n NAL) bool { return slices.Contains(kinds, n.Type) })
}

// Check says what is wrong with the segment as far as that is seen without decoding it.
func (s *Segment) Check() error {
	if err := CheckSize(s.Width, s.Height); err != nil {
		return err
	}
	if !(s.Rate > 0 && s.Rate <= 1000) {
		return fmt.Errorf("a segment has %v frames in a second", s.Rate)
	}
	if len(s.Units) < 1 || len(s.Units) > MaxFrames {
		return fmt.Errorf("a segment has %d frames; 1 to %d are right", len(s.Units), MaxFrames)
	}
	seen := make([]bool, len(s.Units))
	for i, u := range s.Units {
		if u.Order < 0 || u.Order >= len(seen) || seen[u.Order] {
			return fmt.Errorf("unit %d of a segment of %d is said to be frame %d, which is outside or given before", i, len(seen), u.Order)
		}
		seen[u.Order] = true
		units := NALUnits(u.Data)
		if !hasNALKind(units, NALSlice, NALIDR) {
			return fmt.Errorf("unit %d of a segment, of %d bytes, has no slice behind a start code", i, len(u.Data))
		}
		if i == 0 && (u.Order != 0 || !hasNALKind(units, NALIDR)) {
			return errors.New("the first unit of a segment is no IDR picture, or not the first frame")
		}
	}
	return nil
}

// segmentVersion begins the wire form of segments.
const segmentVersion = 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendBinary appends the segment's form for the wire: a version, then width, height, rate (its bits), the number of
// units and for each order, index, time in nanoseconds, length and bytes; at last CRC-32C of all that, since a decoder
// does not see every flipped bit. Numbers are varints.
func (s *Segment) AppendBinary(to []byte) ([]byte, error) {
	begin := len(to)
	to = append(to, segmentVersion)
	to = binary.AppendUvarint(to, uint64(s.Width))
	to = binary.AppendUvarint(to, uint64(s.Height))
	to = binary.BigEndian.AppendUint64(to, math.Float64bits(s.Rate))
	to = binary.AppendUvarint(to, uint64(len(s.Units)))
	for _, u := range s.Units {
		to = binary.AppendUvarint(to, uint64(u.Order))
		to = binary.AppendVarint(to, int64(u.Index))
		to = binary.AppendVarint(to, int64(u.Time))
		to = binary.AppendUvarint(to, uint64(len(u.Data)))
		to = append(to, u.Data...)
	}
	return binary.BigEndian.AppendUint32(to, crc32.Checksum(to[begin:], castagnoli)), nil
}

// ParseSegment reads the form that AppendBinary writes, and checks it; nothing may follow it. Units share memory with
// data.
func ParseSegment(data []byte) (*Segment, error) {
	if len(data) == 0 || data[0] != segmentVersion {
		return nil, fmt.Errorf("a segment of %d bytes is not of version %d", len(data), segmentVersion)
	}
	end := len(data) - crc32.Size
	if end < 1 || crc32.Checksum(data[:end], castagnoli) != binary.BigEndian.Uint32(data[end:]) {
		return nil, fmt.Errorf("a segment of %d bytes is cut or spoilt: its checksum is another one", len(data))
	}
	return parseSegment(data[1:end])
}

// parseSegment reads what is between version and checksum.
func parseSegment(data []byte) (*Segment, error) {
	r := wireReader{data: data}
	s := &Segment{Width: r.number(), Height: r.number(), Rate: math.Float64frombits(r.readUint64())}
	frames := r.number()
	if frames > MaxFrames {
		return nil, fmt.Errorf("a segment says that it has %d frames, at most %d are right", frames, MaxFrames)
	}
	for i := 0; i < frames && !r.bad; i++ {
		s.Units = append(s.Units, Unit{Order: r.number(), Index: int(r.signed()), Time: time.Duration(r.signed()), Data: r.bytes(r.number())})
	}
	if r.bad {
		return nil, fmt.Errorf("a segment of %d bytes is cut, or a number in it is too large", len(data))
	}
	if len(r.data) != 0 {
		return nil, fmt.Errorf("a segment of %d bytes is followed by %d", len(data)-len(r.data), len(r.data))
	}
	return s, s.Check()
}

// wireReader reads numbers until there is none; bad says that it came to that.
type wireReader struct {
	data []byte
	bad  bool
}

func (r *wireReader) takeBytes(n int) []byte {
	if r.bad || n < 0 || n > len(r.data) {
		r.bad, r.data = true, nil
		return nil
	}
	read := r.data[:n:n]
	r.data = r.data[n:]
	return read
}

// number reads one that fits into 31 bits.
func (r *wireReader) number() int {
	v, n := binary.Uvarint(r.data)
	if n <= 0 || v > math.MaxInt32 {
		n = -1
	}
	if r.takeBytes(n) == nil {
		return 0
	}
	return int(v)
}

func (r *wireReader) signed() int64 {
	v, n := binary.Varint(r.data)
	if n <= 0 {
		n = -1
	}
	if r.takeBytes(n) == nil {
		return 0
	}
	return v
}

func (r *wireReader) readUint64() uint64 {
	b := r.takeBytes(8)
	if b == nil {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

func (r *wireReader) bytes(n int) []byte { return r.takeBytes(n) }
