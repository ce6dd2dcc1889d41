//go:build cgo && linux && amd64

package onednn_test

import (
	"math"
	"testing"

	"golang.org/x/sys/cpu"

	"github.com/prefillonly/prefillonly/kernels/cpu/onednn"
)

// Small whole numbers are exact in bfloat16, and so are their sums here.
func TestMatmul(t *testing.T) {
	if !cpu.X86.HasAVX512BW {
		t.Skip("oneDNN multiplies bfloat16 on processors with AVX-512, and this one has none")
	}
	const m, n, k = 3, 5, 8
	value := func(i int) float32 { return float32(i%5 - 2) }
	encode := func(f float32) uint16 { return uint16(math.Float32bits(f) >> 16) }
	src, w, dst := make([]uint16, m*k), make([]uint16, n*k), make([]uint16, m*n)
	for i := range src {
		src[i] = encode(value(i))
	}
	for i := range w {
		w[i] = encode(value(i * 3))
	}
	p, err := onednn.New(m, n, k, w)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Free()
	if err := p.Run(dst, src); err != nil {
		t.Fatal(err)
	}
	for i := range m {
		for j := range n {
			var want float32
			for l := range k {
				want += value(i*k+l) * value((j*k+l)*3)
			}
			if dst[i*n+j] != encode(want) {
				t.Errorf("dst[%d][%d] = %#x, want %#x", i, j, dst[i*n+j], encode(want))
			}
		}
	}
	if err := p.Run(dst, src[1:]); err == nil {
		t.Error("a source of the wrong size was taken")
	}
}
