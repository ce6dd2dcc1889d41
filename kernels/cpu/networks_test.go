//go:build cgo && linux && amd64

package cpu_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/kernels/cpu/cputest"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

func floats(r *rand.Rand, n int) []byte {
	data := make([]byte, 4*n)
	for i := range n {
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(float32(r.NormFloat64())))
	}
	return data
}

func put(t *testing.T, b kernels.Backend, data []byte, shape ...int) kernels.Tensor {
	t.Helper()
	buf, err := b.Alloc(int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(buf.Free)
	b.Write(buf, 0, data)
	v := kernels.Tensor{Buf: buf, Shape: shape, Stride: make([]int, len(shape))}
	for i, stride := len(shape)-1, 1; i >= 0; i-- {
		v.Stride[i] = stride
		stride *= shape[i]
	}
	return v
}

// wide is a convolution whose lines are long enough to be read where they lie, with what comes after it.
type wide struct {
	in, out, kernel, stride, dilation, pad int
	then                                   *kernels.Program
}

// compute convolves an image of 12 lines of 67 places, and adds an operand where then has two.
func (c wide) compute(t *testing.T, b kernels.Networks) []float32 {
	const height, width = 12, 67
	r := rand.New(rand.NewPCG(1, uint64(c.in)))
	spec := kernels.ConvSpec{In: c.in, Out: c.out, Groups: 1, Kernel: []int{c.kernel, c.kernel}, Strides: []int{c.stride, c.stride}, Dilations: []int{c.dilation, c.dilation}}
	size := func(n int) int { return (n+2*c.pad-c.dilation*(c.kernel-1)-1)/c.stride + 1 }
	h, w := size(height), size(width)
	src := put(t, b, floats(r, 2*height*width*c.in), 2, height, width, c.in)
	dst := put(t, b, floats(r, 2*h*w*c.out), 2, h, w, c.out)
	beside := put(t, b, floats(r, 2*h*w*c.out), 2, h, w, c.out)
	f, err := b.NewFilter(spec, kernels.HostTensor{Type: kernels.F32, Rows: c.out, Cols: spec.Taps(), Data: floats(r, c.out*spec.Taps())})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Free()
	var operands []kernels.Tensor
	if c.then != nil && c.then.Operands == 2 {
		operands = append(operands, beside)
	}
	shift := put(t, b, floats(r, c.out), c.out).Buf
	b.Conv(dst, src, f, kernels.Affine{Shift: shift}, []int{-c.pad, -c.pad}, c.then, operands...)
	if err := b.Sync(); err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 4*dst.Elements())
	b.Read(data, dst.Buf, 0)
	values := make([]float32, dst.Elements())
	kernels.Expand(values, kernels.F32, data)
	return values
}

// The suite for all backends has no images that are wide enough for windows to be read where they lie.
func TestWideConvolutions(t *testing.T) {
	clip := &kernels.Program{Operands: 1, Code: []kernels.Instruction{{Op: kernels.Constant}, {Op: kernels.Max, A: 0, B: 1}, {Op: kernels.Constant, X: 6}, {Op: kernels.Min, A: 3, B: 2}}}
	residual := &kernels.Program{Operands: 2, Code: []kernels.Instruction{{Op: kernels.Add, A: 1, B: 0}, {Op: kernels.Constant, X: -1}, {Op: kernels.Max, A: 2, B: 3}}}
	silu := &kernels.Program{Operands: 1, Code: []kernels.Instruction{{Op: kernels.Sigmoid}, {Op: kernels.Mul, A: 0, B: 1}}}
	for _, isa := range []string{"avx2", "avx512"} {
		t.Run(isa, func(t *testing.T) {
			b, oracle := cputest.Open(t, cpu.Config{Threads: 3, ISA: isa}), ref.New()
			t.Cleanup(oracle.Close)
			for _, c := range []wide{
				{3, 24, 3, 1, 1, 1, clip}, {12, 16, 3, 1, 1, 1, silu}, {8, 40, 5, 1, 1, 2, residual}, {3, 8, 3, 2, 1, 1, residual},
				{16, 20, 3, 1, 2, 2, clip}, {5, 33, 2, 1, 1, 0, nil}, {16, 7, 1, 1, 1, 0, residual}, {4, 12, 3, 1, 3, 1, silu},
			} {
				got, want := c.compute(t, b), c.compute(t, oracle.(kernels.Networks))
				for i := range want {
					if math.Abs(float64(got[i]-want[i])) > 1e-4*(1+math.Abs(float64(want[i]))) {
						t.Errorf("%+v: element %d is %g, want %g", c, i, got[i], want[i])
						break
					}
				}
			}
		})
	}
}
