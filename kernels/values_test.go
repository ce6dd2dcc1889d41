package kernels

import (
	"math"
	"testing"
)

func TestFromHalf(t *testing.T) {
	for bits, want := range map[uint16]float32{
		0x0000: 0, 0x3c00: 1, 0xc000: -2, 0x7bff: 65504, 0x0001: 0x1p-24, 0x83ff: -1023 * 0x1p-24, 0x0400: 0x1p-14,
		0x7c00: float32(math.Inf(1)), 0xfc00: float32(math.Inf(-1)),
	} {
		if got := fromHalf(bits); got != want {
			t.Errorf("fromHalf(%#04x) = %v, want %v", bits, got, want)
		}
	}
	if got := fromHalf(0x7e00); got == got {
		t.Errorf("fromHalf(0x7e00) = %v, want NaN", got)
	}
}
