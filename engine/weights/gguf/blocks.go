package gguf

import (
	"encoding/binary"
	"math"

	"github.com/prefillonly/prefillonly/kernels"
)

// Blocks of 32 elements: a scale, perhaps a least value, and the elements' codes. Codes of four bits lie so that the lower half of a byte
// is element i, and the upper half element i+16.

// half is the IEEE 754 binary16 number at the beginning of src.
func half(src []byte) float32 {
	var x [1]float32
	kernels.Expand(x[:], kernels.F16, src)
	return x[0]
}

func expandQ4x0(dst []float32, src []byte) {
	d := half(src)
	for i, q := range src[2:18] {
		dst[i] = d * float32(int(q&15)-8)
		dst[i+16] = d * float32(int(q>>4)-8)
	}
}

// affine is d*q + m, rounded twice on all machines.
func affine(d float32, q int, m float32) float32 { return float32(d*float32(q)) + m }

func expandQ4x1(dst []float32, src []byte) {
	d, m := half(src), half(src[2:])
	for i, q := range src[4:20] {
		dst[i] = affine(d, int(q&15), m)
		dst[i+16] = affine(d, int(q>>4), m)
	}
}

func expandQ5x0(dst []float32, src []byte) {
	d, high := half(src), binary.LittleEndian.Uint32(src[2:])
	for i, q := range src[6:22] {
		dst[i] = d * float32(int(q&15|byte(high>>i&1)<<4)-16)
		dst[i+16] = d * float32(int(q>>4|byte(high>>(i+16)&1)<<4)-16)
	}
}

func expandQ5x1(dst []float32, src []byte) {
	d, m, high := half(src), half(src[2:]), binary.LittleEndian.Uint32(src[4:])
	for i, q := range src[8:24] {
		dst[i] = affine(d, int(q&15|byte(high>>i&1)<<4), m)
		dst[i+16] = affine(d, int(q>>4|byte(high>>(i+16)&1)<<4), m)
	}
}

func expandQ8x0(dst []float32, src []byte) {
	d := half(src)
	for i, q := range src[2:34] {
		dst[i] = d * float32(int8(q))
	}
}

// levels4 are the values of the codes of IQ4_NL and IQ4_XS.
var levels4 = [16]float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

func expandIQ4NL(dst []float32, src []byte) { expandLevels(dst, half(src), &levels4, src[2:18]) }

func expandLevels(dst []float32, d float32, levels *[16]float32, codes []byte) {
	for i, q := range codes {
		dst[i] = d * levels[q&15]
		dst[i+16] = d * levels[q>>4]
	}
}

// levelsE2M1 are twice the values of the codes of MXFP4.
var levelsE2M1 = [16]float32{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

func expandMXFP4(dst []float32, src []byte) {
	expandLevels(dst, float32(math.Ldexp(1, int(src[0])-128)), &levelsE2M1, src[1:17])
}
