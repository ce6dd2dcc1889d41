package ffmpeg

import (
	"encoding/binary"

	"github.com/prefillonly/prefillonly/videoext/media"
)

// What decoding takes beside the pictures that a codec must keep.
const (
	spareFrames = 4       // in work, and on their way out
	trackBytes  = 1 << 20 // of a track's decoder, whose parameters are read
	fixedBytes  = 4 << 20
	leastBits   = 12 // of a pixel
)

// alignment is what codecs round the sides of a frame up to.
const alignment = 64

// bounds are the pixels of a frame and the frames that a decoder may hold at a time.
func (i *Info) bounds(references int) (pixels, frames int) {
	up := func(n int) int { return (n + alignment - 1) / alignment * alignment }
	return up(i.Width) * up(i.Height), references + spareFrames
}

// need is how many bytes decoding takes: half as much again as the pixels for what codecs note of each block of them.
func need(pixels, frames, bits, tracks int) int64 {
	return int64(frames)*int64(pixels)*int64(bits)/8*3/2 + int64(tracks)*trackBytes + fixedBytes
}

// DecodeMemory is what Decode takes beside the frames that come of it.
func DecodeMemory(s *media.Segment) int64 {
	info := Info{Width: s.Width, Height: s.Height}
	pixels, frames := info.bounds(min(len(s.Units), mostReferences))
	return need(pixels, frames, leastBits, 1)
}

// mostReferences is how many frames H.264 and HEVC predict from, at most.
const mostReferences = 16

// coding is what parameter sets say: the frames that others are predicted from, and the size, if it is known.
type coding struct{ references, width, height int }

// unknown is the most that there may be.
var unknown = coding{references: mostReferences}

// codingOf is what a codec keeps. H.264 and HEVC say it in parameter sets, which come as in annex B or as in MP4.
func codingOf(codec string, headers []byte) (c coding) {
	switch codec {
	case "mjpeg":
	case "mpeg1video", "mpeg2video", "mpeg4":
		c.references = 2
	case "vp8":
		c.references = 3
	case "vp9", "av1", "libdav1d":
		c.references = 8
	case "h264":
		c = largestCoding(parameterSets(headers, func(kind byte) bool { return kind&31 == 7 }, avcSets), h264Coding)
	case "hevc":
		c = largestCoding(parameterSets(headers, func(kind byte) bool { return kind>>1&63 == 33 }, hevcSets), hevcCoding)
	default:
		c = unknown
	}
	return c
}

// largestCoding is the most of what sets say.
func largestCoding(sets [][]byte, read func(set []byte) coding) (c coding) {
	for _, set := range sets {
		one := read(set)
		c.references = max(c.references, min(one.references, mostReferences))
		if one.width*one.height > c.width*c.height {
			c.width, c.height = one.width, one.height
		}
	}
	return c
}

// described is what is known of a camera by its description; its Memory is 0 if that does not say enough.
func described(codec string, headers []byte, tracks int) Info {
	coding := codingOf(codec, headers)
	info := Info{Width: coding.width, Height: coding.height, Codec: codec, Duration: -1}
	if media.CheckSize(info.Width, info.Height) == nil {
		pixels, frames := info.bounds(coding.references)
		info.Memory = need(pixels, frames, leastBits, tracks)
	}
	return info
}

// parameterSets are the NAL units of sequences, without what keeps start codes out of them; one that says nothing if there is none.
func parameterSets(headers []byte, sequence func(kind byte) bool, listed func(*[]byte) [][]byte) (sets [][]byte) {
	units := [][]byte{}
	if len(headers) > 3 && headers[0] == 0 && headers[1] == 0 {
		for _, n := range media.NALUnits(headers) {
			units = append(units, n.Data[3:])
			if n.Data[2] == 0 {
				units[len(units)-1] = n.Data[4:]
			}
		}
	} else {
		units = listed(&headers)
	}
	for _, u := range units {
		if len(u) > 0 && sequence(u[0]) {
			sets = append(sets, unescapeNAL(u))
		}
	}
	if len(sets) == 0 {
		return [][]byte{nil}
	}
	return sets
}

// takeBytes takes bytes off the beginning; nil if they are not there.
func takeBytes(from *[]byte, n int) []byte {
	if n > len(*from) {
		*from = nil
		return nil
	}
	taken := (*from)[:n]
	*from = (*from)[n:]
	return taken
}

func takeSizedUnits(from *[]byte, count int) (units [][]byte) {
	for range count {
		if size := takeBytes(from, 2); size != nil {
			units = append(units, takeBytes(from, int(binary.BigEndian.Uint16(size))))
		}
	}
	return units
}

// avcSets are the sequences of an AVCDecoderConfigurationRecord (ISO/IEC 14496-15).
func avcSets(from *[]byte) [][]byte {
	head := takeBytes(from, 6)
	if head == nil {
		return nil
	}
	return takeSizedUnits(from, int(head[5]&31))
}

// hevcSets are the units of an HEVCDecoderConfigurationRecord.
func hevcSets(from *[]byte) (units [][]byte) {
	head := takeBytes(from, 23)
	for n := 0; head != nil && n < int(head[22]); n++ {
		array := takeBytes(from, 3)
		if array == nil {
			break
		}
		units = append(units, takeSizedUnits(from, int(binary.BigEndian.Uint16(array[1:])))...)
	}
	return units
}

// unescapeNAL is a NAL unit without the threes that keep start codes out of it.
func unescapeNAL(unit []byte) []byte {
	out, zeros := make([]byte, 0, len(unit)), 0
	for _, c := range unit {
		if zeros >= 2 && c == 3 {
			zeros = 0
			continue
		}
		if out = append(out, c); c == 0 {
			zeros++
		} else {
			zeros = 0
		}
	}
	return out
}

// bitReader reads syntax elements until there are none; then they are 0.
type bitReader struct {
	data []byte
	at   int // in bits
	over bool
}

func (r *bitReader) u(n int) (v int) {
	for range n {
		if r.over = r.over || r.at/8 >= len(r.data); r.over {
			return 0
		}
		v = v<<1 | int(r.data[r.at/8]>>(7-r.at%8)&1)
		r.at++
	}
	return v
}

func (r *bitReader) skip(n int) { r.at += n }

// ue reads an Exp-Golomb code; se is as long.
func (r *bitReader) ue() int {
	zeros := 0
	for r.u(1) == 0 && !r.over && zeros < 32 {
		zeros++
	}
	return 1<<zeros - 1 + r.u(zeros)
}

func (r *bitReader) se() int {
	v := r.ue()
	if v%2 == 0 {
		return -v / 2
	}
	return v/2 + 1
}

// codingOrUnknown is what was read, unless the set was cut before its end.
func (r *bitReader) codingOrUnknown(c coding) coding {
	if r.over {
		return unknown
	}
	return c
}

// h264Coding reads a sequence parameter set as far as its size (H.264, 7.3.2.1.1).
func h264Coding(set []byte) coding {
	r := &bitReader{data: set, at: 8}
	profile := r.u(8)
	r.skip(16)
	r.ue()
	switch profile {
	case 100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135:
		chroma := r.ue()
		if chroma == 3 {
			r.u(1)
		}
		r.ue()
		r.ue()
		r.u(1)
		if r.u(1) == 1 {
			r.scalingLists(chroma)
		}
	}
	r.ue()
	switch r.ue() { // pic_order_cnt_type
	case 0:
		r.ue()
	case 1:
		r.u(1)
		r.se()
		r.se()
		for n := r.ue(); n > 0 && !r.over; n-- {
			r.se()
		}
	}
	c := coding{references: r.ue()}
	r.u(1)
	c.width, c.height = 16*(1+r.ue()), 16*(1+r.ue())
	if r.u(1) == 0 { // macroblocks may be of fields
		c.height *= 2
	}
	return r.codingOrUnknown(c)
}

func (r *bitReader) scalingLists(chroma int) {
	lists := 8
	if chroma == 3 {
		lists = 12
	}
	for i := range lists {
		if r.u(1) == 0 {
			continue
		}
		size := 64
		if i < 6 {
			size = 16
		}
		for last, k := 8, 0; k < size; k++ {
			next := (last + r.se() + 256) % 256
			if next == 0 {
				break // the others are as the last one
			}
			last = next
		}
	}
}

// hevcCoding reads a sequence parameter set as far as sps_max_dec_pic_buffering_minus1 (HEVC, 7.3.2.2.1).
func hevcCoding(set []byte) (c coding) {
	r := &bitReader{data: set, at: 16 + 4}
	layers := r.u(3)
	r.skip(1 + 96)
	var profile, level [8]bool
	for i := range layers {
		profile[i], level[i] = r.u(1) == 1, r.u(1) == 1
	}
	if layers > 0 {
		r.skip(2 * (8 - layers))
	}
	for i := range layers {
		if profile[i] {
			r.skip(88)
		}
		if level[i] {
			r.skip(8)
		}
	}
	r.ue()
	if r.ue() == 3 { // chroma_format_idc
		r.u(1)
	}
	c.width, c.height = r.ue(), r.ue()
	if r.u(1) == 1 {
		for range 4 {
			r.ue()
		}
	}
	for range 3 {
		r.ue()
	}
	first := layers
	if r.u(1) == 1 {
		first = 0
	}
	for range layers - first + 1 {
		c.references = max(c.references, 1+r.ue())
		r.ue()
		r.ue()
	}
	return r.codingOrUnknown(c)
}
