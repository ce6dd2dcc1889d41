package networktest

import (
	"fmt"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/kerneltest"
)

// yolox are convolutions of YOLOX-nano (Ge et al., 2021) for a picture of 416 x 416, and 5 x 5 ones of
// PicoDet (Yu et al., 2021), with how they follow one another: the stem, a stage's and the heads'.
var yolox = []Conv{
	newSquareConv(1, 208, 12, 16, 1, 3, 1),
	newSquareConv(1, 208, 16, 16, 16, 3, 2),
	newSquareConv(1, 104, 16, 32, 1, 1, 1),
	newSquareConv(1, 104, 16, 16, 16, 3, 1),
	newSquareConv(1, 52, 64, 64, 1, 1, 1),
	newSquareConv(1, 52, 64, 64, 64, 3, 1),
	newSquareConv(1, 26, 128, 128, 1, 1, 1),
	newSquareConv(1, 26, 128, 128, 128, 3, 2),
	newSquareConv(1, 26, 96, 96, 96, 5, 1),
	newSquareConv(1, 52, 48, 48, 48, 5, 2),
	newSquareConv(1, 13, 512, 256, 1, 1, 1),
	newSquareConv(1, 13, 256, 256, 256, 3, 1),
	newSquareConv(1, 26, 64, 64, 1, 3, 1),
	newSquareConv(1, 416, 3, 16, 1, 3, 2),
	newSquareConv(1, 52, 64, 4, 1, 1, 1),
}

// Bench measures convolutions at the shapes of detectors, with SiLU after them and backward, in GFLOP/s of the
// fastest run and as a part of the backend's rate in a product of two matrices, and what moves memory in GB/s.
func Bench(b *testing.B, open Open) {
	for _, c := range yolox {
		name := fmt.Sprintf("%dx%d-%d-to-%d-groups%d-%dx%d-by%d", c.Input[0], c.Input[1], c.In, c.Out, c.Groups, c.Kernel[0], c.Kernel[1], c.Strides[0])
		b.Run("Conv/"+name, func(b *testing.B) { benchConv(b, open, c, nil) })
		b.Run("ConvSiLU/"+name, func(b *testing.B) { benchConv(b, open, c, silu) })
		b.Run("ConvBackward/"+name, func(b *testing.B) { benchConvBackward(b, open, c) })
	}
	for _, kind := range []string{"max", "mean"} {
		for _, p := range []Pool{squarePool(kind, 13, 128, 5, 1, 2, 1), squarePool(kind, 13, 128, 13, 1, 6, 1), squarePool(kind, 112, 64, 3, 2, 1, 1)} {
			p.N = 1
			b.Run("Pool/"+p.String(), func(b *testing.B) { benchPool(b, open, p) })
		}
	}
	moves := []struct {
		name  string
		shape []int
		run   func(d *device, dst, src kernels.Tensor)
	}{
		{"Map/SiLU", []int{1, 104, 104, 32}, func(d *device, dst, src kernels.Tensor) { d.Map(dst, silu, src) }},
		{"Map/Add", []int{1, 104, 104, 32}, func(d *device, dst, src kernels.Tensor) { d.Map(dst, programs["residual add"], src, src) }},
		{"Map/Copy", []int{1, 104, 104, 32}, func(d *device, dst, src kernels.Tensor) { d.Map(dst, identity, src) }},
		{"Map/Transpose", []int{1, 104, 104, 32}, func(d *device, dst, src kernels.Tensor) {
			dst.Shape, dst.Stride = []int{1, 104, 104, 32}, []int{1, 104, 1, 104 * 104}
			d.Map(dst, identity, src)
		}},
		{"Interpolate/twice", []int{1, 26, 26, 64}, func(d *device, dst, src kernels.Tensor) {
			dst.Shape, dst.Stride = []int{1, 52, 26, 64}, denseStrides([]int{1, 52, 26, 64})
			d.Interpolate(dst, src, 1, upsampleTaps(26))
		}},
		{"Reduce/spatial", []int{1, 52, 52, 96}, func(d *device, dst, src kernels.Tensor) {
			dst.Shape = []int{1, 1, 1, 96}
			d.Reduce(dst, src, kernels.Sum)
		}},
		{"Reduce/channels", []int{1, 52, 52, 96}, func(d *device, dst, src kernels.Tensor) {
			dst.Shape, dst.Stride = []int{1, 52, 52, 1}, []int{52 * 52, 52, 1, 1}
			d.Reduce(dst, src, kernels.Largest)
		}},
	}
	for _, m := range moves {
		b.Run(m.name, func(b *testing.B) {
			d := newDevice(b, open)
			src := d.writeElements(d.newView(m.shape, denseStrides(m.shape)), d.drawNormalArray(m.shape...))
			dst := d.newView([]int{2 * Product(m.shape)}, []int{1})
			dst.Shape, dst.Stride = m.shape, denseStrides(m.shape)
			best := kerneltest.Shortest(b, b.Loop, d, func() { m.run(d, dst, src) })
			b.ReportMetric(4*float64(Product(m.shape))/float64(best.Nanoseconds()), "GB/s-read")
		})
	}
}

var identity = newProgram(1, kernels.Instruction{Op: kernels.Copy, A: 0})

// upsampleTaps are the taps of nearest neighbours for twice as many.
func upsampleTaps(n int) kernels.Taps {
	t := kernels.Taps{Start: []int32{0}}
	for i := range 2 * n {
		t.Start, t.Index, t.Weight = append(t.Start, int32(i+1)), append(t.Index, int32(i/2)), append(t.Weight, 1)
	}
	return t
}

// uploadDenseImage uploads an image without gaps, as most are.
func (d *device) uploadDenseImage(shape []int) kernels.Tensor {
	return d.writeElements(d.newView(shape, denseStrides(shape)), d.drawNormalArray(shape...))
}

func benchConv(b *testing.B, open Open, c Conv, then *kernels.Program) {
	d := newDevice(b, open)
	f := d.drawLayer(c)
	src, dst := d.uploadDenseImage(c.InputShape()), d.uploadDenseImage(c.OutputShape())
	d.reportConv(b, c, func() { d.Conv(dst, src, f.Filter, f.Affine, c.Origin, then) })
}

func benchConvBackward(b *testing.B, open Open, c Conv) {
	d := newDevice(b, open)
	f := d.drawLayer(c)
	src, dst := d.uploadDenseImage(c.OutputShape()), d.uploadDenseImage(c.InputShape())
	d.reportConv(b, c, func() { d.ConvBackward(dst, src, f.Filter, c.Origin) })
}

// reportConv measures run beside a product of two matrices of 512 x 512.
func (d *device) reportConv(b *testing.B, c Conv, run func()) {
	const n = 512
	x, y := d.uploadDenseImage([]int{n, n}), d.uploadDenseImage([]int{n, n})
	matmul := kerneltest.Shortest(b, kerneltest.For(50*time.Millisecond), d, func() { d.MatMul(y, x, x) })
	best := kerneltest.Shortest(b, b.Loop, d, run)
	rate := kerneltest.Gigaflops(2*float64(c.Taps())*float64(Product(c.OutputShape())), best)
	b.ReportMetric(rate, "GFLOP/s")
	b.ReportMetric(rate/kerneltest.Gigaflops(2*n*n*n, matmul), "of-matmul")
}

func benchPool(b *testing.B, open Open, p Pool) {
	d := newDevice(b, open)
	src, dst := d.uploadDenseImage(p.InputShape()), d.uploadDenseImage(p.OutputShape())
	best := kerneltest.Shortest(b, b.Loop, d, func() { d.Pool(dst, src, p.PoolSpec, p.Origin) })
	b.ReportMetric(4*float64(Product(p.InputShape()))/float64(best.Nanoseconds()), "GB/s-read")
}
