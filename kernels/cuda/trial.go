package cuda

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda/cudnn"
)

// trialLimit is how far the library's results may be from our own kernels', in parts of the largest. Sums of float32
// in another order stay below it; the 10 bits of TF32 do not.
const trialLimit = 1e-5

// Images of a trial, sizes of their outputs, and how many rows are computed apart.
const (
	trialImages = 2
	trialRows   = 7
	trialCols   = 5
	trialApart  = 4
)

// try computes a little of a kind by the library and by our own kernels, whole and in parts. The error says how the
// results differ: a library's kernel that is wrong here, or whose bits depend on what is beside, must not be used.
func (o *networkOperations) try(l *cudnn.Convolutions, k cudnn.ConvolutionKind) error {
	before := o.device.Sync() // what failed before is not the trial's
	t := &trial{o: o, l: l, kind: k, random: rand.New(rand.NewPCG(uint64(k.In), uint64(k.Out)))}
	t.make()
	want := t.computeOutput(t.runOwnKernel)
	got := t.computeOutput(t.runLibraryKernel)
	off := largestDifference(got, want)
	again := t.computeOutput(func() { t.runLibraryKernel(); t.computeLastRows() })
	t.freeBuffers()
	if err := o.device.Sync(); t.err == nil {
		t.err = err
	}
	if before != nil {
		o.device.Fail(before)
	}
	switch {
	case t.err != nil:
		return t.err
	case !(off <= trialLimit):
		return fmt.Errorf("its results differ from our own kernels' by %.2g of the largest, more than %v", off, trialLimit)
	case largestDifference(again, got) != 0:
		return fmt.Errorf("its results depend on what is computed in the same call")
	}
	return nil
}

// trial is a convolution of random numbers. After the first failure nothing is computed.
type trial struct {
	o       *networkOperations
	l       *cudnn.Convolutions
	kind    cudnn.ConvolutionKind
	random  *rand.Rand
	buffers []kernels.Buffer
	filter  *filter
	affine  kernels.Affine
	dst     kernels.Tensor
	src     kernels.Tensor
	origin  []int
	err     error
}

// make uploads filter and operands, with less padding after than before.
func (t *trial) make() {
	k, in, out := t.kind, []int{trialImages, 0, 0, t.kind.In}, []int{trialImages, trialRows, trialCols, t.kind.Out}
	t.origin = make([]int, 2)
	for i := range t.origin {
		reach := k.Dilations[i] * (k.Kernel[i] - 1)
		t.origin[i] = -(reach / 2)
		in[i+1] = (out[i+1]-1)*k.Strides[i] + 1 + reach - reach/2 - reach/4
	}
	spec := kernels.ConvSpec{In: k.In, Out: k.Out, Groups: k.Groups, Kernel: k.Kernel[:], Strides: k.Strides[:], Dilations: k.Dilations[:]}
	if k.Bias {
		t.affine.Shift = t.drawTensor([]int{k.Out}).Buf
	}
	weight := kernels.HostTensor{Name: "weight", Type: kernels.F32, Rows: k.Out, Cols: spec.Taps(), Data: t.drawNormals(k.Out * spec.Taps())}
	f, err := t.o.NewFilter(spec, weight)
	if err != nil {
		t.err = err
		return
	}
	t.filter = f.(*filter)
	if k.Backward {
		in, out = out, in
	}
	t.src, t.dst = t.drawTensor(in), t.drawTensor(out)
}

func (t *trial) drawNormals(n int) []byte {
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(t.random.NormFloat64())
	}
	return float32Bytes(values)
}

// drawTensor is a dense one of random numbers.
func (t *trial) drawTensor(shape []int) kernels.Tensor {
	v := kernels.Tensor{Shape: shape, Stride: make([]int, len(shape))}
	next := 1
	for i := len(shape) - 1; i >= 0; i-- {
		v.Stride[i], next = next, next*shape[i]
	}
	b, err := t.o.device.Alloc(4 * int64(next))
	if err != nil {
		t.err = err
		return v
	}
	t.buffers, v.Buf = append(t.buffers, b), b
	t.o.device.Write(b, 0, t.drawNormals(next))
	return v
}

func (t *trial) freeBuffers() {
	for _, b := range t.buffers {
		b.Free()
	}
	if t.filter != nil {
		t.filter.Free()
	}
}

// computeOutput is what a way to compute makes of zeros.
func (t *trial) computeOutput(way func()) []float32 {
	if t.err != nil {
		return nil
	}
	raw := make([]byte, 4*t.dst.Elements())
	t.o.device.Write(t.dst.Buf, 0, raw)
	way()
	t.o.device.Read(raw, t.dst.Buf, 0)
	if err := t.o.device.Sync(); t.err == nil {
		t.err = err
	}
	values := make([]float32, len(raw)/4)
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return values
}

var relu = &kernels.Program{Operands: 1, Code: []kernels.Instruction{{Op: kernels.Constant}, {Op: kernels.Max, A: 0, B: 1}}}

func (t *trial) runOwnKernel() {
	switch {
	case t.kind.Backward:
		t.o.backward(t.filter, t.dst, t.src, t.origin)
	case t.kind.ReLU:
		t.o.launchConv(t.filter, t.dst, t.src, t.affine, t.origin, relu, nil)
	default:
		t.o.launchConv(t.filter, t.dst, t.src, t.affine, t.origin, nil, nil)
	}
}

func (t *trial) runLibraryKernel() { t.run(t.dst, t.src, t.origin) }

// computeLastRows computes the last rows of the last image.
func (t *trial) computeLastRows() {
	rows := t.dst.Shape[1]
	from, step := max(0, rows-trialApart), -1
	if !t.kind.Backward {
		step = t.kind.Strides[0]
	}
	dst := sliceTensor(sliceTensor(t.dst, 0, trialImages-1, trialImages), 1, from, rows)
	t.run(dst, sliceTensor(t.src, 0, trialImages-1, trialImages), []int{t.origin[0] + from*step, t.origin[1]})
}

// run is a call of the library.
func (t *trial) run(dst, src kernels.Tensor, origin []int) {
	if t.err != nil {
		return
	}
	in, out := src, dst
	if t.kind.Backward {
		in, out = dst, src
	}
	dims, some := window(t.filter.spec, in, out, origin)
	if !some {
		return
	}
	c, g := newTask(t.kind, in, out, dims)
	if c.plan, t.err = t.l.Plan(t.kind, g); t.err == nil {
		t.o.run(t.filter, t.affine.Shift, c)
	}
}

// largestDifference of got and want is in parts of the largest of want.
func largestDifference(got, want []float32) float64 {
	largest, off := 0.0, 0.0
	for i, w := range want {
		largest, off = max(largest, math.Abs(float64(w))), max(off, math.Abs(float64(got[i])-float64(w)))
	}
	return off / max(largest, math.SmallestNonzeroFloat32)
}
