package driver

import (
	"encoding/binary"
	"fmt"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda"
)

// trialInt8 computes a little product in int8 that has every code, and sums as large as they get. Exact sums are what
// all else relies on: that they are is seen here, or the error says what was computed.
func trialInt8(d cuda.Device) error {
	const m, n, k = cuda.Int8Rows, 48, 1024
	codes, sums := make([]byte, (m+n)*k), make([]byte, 4*m*n)
	for i := range codes {
		codes[i] = byte(i*i>>3 + i/k*i)
	}
	for i := range k { // the largest sums, of both signs
		codes[i], codes[k+i], codes[m*k+i] = 0x80, 0x7f, 0x80
	}
	at, err := d.Alloc(int64(len(codes)))
	if err != nil {
		return err
	}
	defer d.Free(at)
	to, err := d.Alloc(int64(len(sums)))
	if err != nil {
		return err
	}
	defer d.Free(to)
	d.Upload(at, codes)
	d.Gemm(cuda.Gemm{M: m, N: n, K: k, Type: kernels.I8, A: at, AStride: k, W: at + m*k, D: to, DStride: n, DType: kernels.F32})
	d.Download(sums, to)
	if err := d.Sync(); err != nil {
		return err
	}
	for i := range m {
		for j := range n {
			var want int32
			for l := range k {
				want += int32(int8(codes[i*k+l])) * int32(int8(codes[(m+j)*k+l]))
			}
			if got := int32(binary.LittleEndian.Uint32(sums[4*(i*n+j):])); got != want {
				return fmt.Errorf("a product in int8 is wrong on %s: the sum of row %d and column %d is %d, computed was %d", d.Name(), i, j, want, got)
			}
		}
	}
	return nil
}
