package gguf

import "encoding/binary"

// Blocks of 256 elements: groups of 16 or 32 of them have a scale each, in few bits, of a scale of the block.

func expandQ2K(dst []float32, src []byte) {
	scales, codes, d, least := src[:16], src[16:80], half(src[80:]), half(src[82:])
	for group := range 16 { // of 16 elements: four shifts of 32 codes, twice
		codes, shift := codes[group/8*32+group%2*16:], group%8/2*2
		scale, m := d*float32(scales[group]&15), least*float32(scales[group]>>4)
		for i := range 16 {
			dst[16*group+i] = affine(scale, int(codes[i]>>shift&3), -m)
		}
	}
}

func expandQ3K(dst []float32, src []byte) {
	mask, codes, packed, d := src[:32], src[32:96], src[96:108], half(src[108:])
	for group := range 16 {
		low := packed[group%8] >> (group / 8 * 4) & 15
		high := packed[8+group%4] >> (group / 4 * 2) & 3
		scale := d * float32(int(low|high<<4)-32)
		codes, mask, shift, bit := codes[group/8*32+group%2*16:], mask[group%2*16:], group%8/2*2, group/2
		for i := range 16 {
			dst[16*group+i] = scale * float32(int(codes[i]>>shift&3)-4+int(mask[i]>>bit&1)*4)
		}
	}
}

// scaleAndLeast are those of group i of 32 elements, of Q4_K and Q5_K: six bits each in twelve bytes.
func scaleAndLeast(packed []byte, i int) (scale, least byte) {
	if i < 4 {
		return packed[i] & 63, packed[i+4] & 63
	}
	return packed[i+4]&15 | packed[i-4]>>6<<4, packed[i+4]>>4 | packed[i]>>6<<4
}

func expandQ4K(dst []float32, src []byte) { expandK(dst, src, nil, src[16:144]) }
func expandQ5K(dst []float32, src []byte) { expandK(dst, src, src[16:48], src[48:176]) }

// expandK is for codes of four bits, and those of five whose highest is in high.
func expandK(dst []float32, src, high, codes []byte) {
	d, least := half(src), half(src[2:])
	for group := range 8 {
		scale, low := scaleAndLeast(src[4:16], group)
		d, m := d*float32(scale), least*float32(low)
		for i, q := range codes[group/2*32:][:32] {
			q = q >> (group % 2 * 4) & 15
			if high != nil {
				q |= high[i] >> group & 1 << 4
			}
			dst[32*group+i] = affine(d, int(q), -m)
		}
	}
}

func expandQ6K(dst []float32, src []byte) {
	codes, high, scales, d := src[:128], src[128:192], src[192:208], half(src[208:])
	for group := range 16 {
		at := group % 8 * 16 // of the 128 elements that two groups of bytes hold
		low, high := codes[group/8*64+at%64:], high[group/8*32+at%32:]
		scale := d * float32(int8(scales[group]))
		for i := range 16 {
			q := low[i]>>(at/64*4)&15 | high[i]>>(at/32*2)&3<<4
			dst[16*group+i] = scale * float32(int(q)-32)
		}
	}
}

func expandIQ4XS(dst []float32, src []byte) {
	d, high, low := half(src), binary.LittleEndian.Uint16(src[2:]), src[4:8]
	for group := range 8 {
		scale := int(low[group/2]>>(group%2*4)&15) | int(high>>(2*group)&3)<<4
		expandLevels(dst[32*group:], d*float32(scale-32), &levels4, src[8+16*group:][:16])
	}
}
