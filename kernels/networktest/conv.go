package networktest

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// newSquareConv is a convolution of two dimensions with padding that keeps the size, but for strides.
func newSquareConv(n, size, in, out, groups, kernel, stride int) Conv {
	outputs := (size + stride - 1) / stride
	return Conv{
		ConvSpec: kernels.ConvSpec{In: in, Out: out, Groups: groups, Kernel: []int{kernel, kernel}, Strides: []int{stride, stride}, Dilations: []int{1, 1}},
		N:        n, Input: []int{size, size}, Size: []int{outputs, outputs}, Origin: []int{-(kernel / 2), -(kernel / 2)}, Shifted: true,
	}
}

// convs are shapes as networks have them.
var convs = []Conv{
	newSquareConv(1, 7, 3, 16, 1, 3, 2),
	newSquareConv(2, 13, 16, 16, 16, 3, 1),
	newSquareConv(1, 9, 24, 24, 24, 5, 1),
	newSquareConv(1, 8, 24, 24, 24, 5, 2),
	newSquareConv(3, 5, 64, 33, 1, 1, 1),
	newSquareConv(1, 1, 64, 64, 1, 1, 1),
	newSquareConv(1, 6, 32, 64, 1, 3, 1),
	newSquareConv(2, 10, 17, 17, 17, 3, 2),
	newSquareConv(1, 12, 3, 8, 1, 6, 2),
	newSquareConv(1, 11, 3, 64, 1, 7, 2),
	newSquareConv(1, 6, 32, 32, 2, 3, 1),
	newSquareConv(1, 5, 8, 24, 8, 3, 1),
	newSquareConv(1, 5, 40, 40, 5, 1, 1),
	newSquareConv(1, 40, 4, 4, 4, 3, 1),
	scaled(newSquareConv(1, 9, 3, 24, 1, 3, 2)),
	scaled(newSquareConv(2, 13, 20, 20, 20, 3, 1)),
	scaled(newSquareConv(1, 8, 24, 24, 24, 7, 1)),
	scaled(newSquareConv(3, 5, 64, 33, 1, 1, 1)),
	scaled(newSquareConv(1, 6, 300, 16, 1, 3, 1)), // whose taps are not gathered at a time
}

// scaled is a convolution with a scale of each output, too.
func scaled(c Conv) Conv {
	c.Scaled = true
	return c
}

// maxProducts bounds the products of a random convolution.
const maxProducts = 200_000

// randomConv draws one, of which no figure need go with another.
func (d *device) randomConv() Conv {
	for {
		c := Conv{N: pickChoice(d, 1, 1, 2, 3), Shifted: d.upTo(1) == 0}
		c.Scaled = c.Shifted && d.upTo(1) == 0
		c.In, c.Out = pickChoice(d, 1, 3, 8, 16, 17, 64), pickChoice(d, 1, 3, 8, 16, 17, 64)
		switch c.Groups = 1; d.upTo(2) {
		case 1: // depthwise
			c.Groups = c.In
			c.Out = c.In * pickChoice(d, 1, 1, 1, 2, 3)
		case 2:
			c.Groups = pickChoice(d, 1, 2, 4)
			c.In, c.Out = c.Groups*pickChoice(d, 1, 3, 8), c.Groups*pickChoice(d, 1, 5, 8)
		}
		for range pickChoice(d, 1, 2, 2, 2, 3) {
			c.Kernel = append(c.Kernel, pickChoice(d, 1, 2, 3, 3, 5))
			c.Strides = append(c.Strides, pickChoice(d, 1, 1, 2, 3))
			c.Dilations = append(c.Dilations, pickChoice(d, 1, 1, 1, 2, 3))
			c.Input = append(c.Input, pickChoice(d, 1, 2, 5, 8, 13))
			c.Size = append(c.Size, pickChoice(d, 1, 3, 6, 7, 17))
			c.Origin = append(c.Origin, d.upTo(7)-5)
		}
		if float64(c.Taps())*float64(Product(c.OutputShape())) < maxProducts {
			return c
		}
	}
}

// hostTensor is a tensor of float32.
func hostTensor(name string, rows, cols int, v []float64) kernels.HostTensor {
	t := kernels.HostTensor{Name: name, Type: kernels.F32, Rows: rows, Cols: cols}
	for _, x := range v {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(float32(x)))
	}
	return t
}

// layer is a convolution's operands beside the input, on the device and as they were drawn.
type layer struct {
	kernels.Filter
	kernels.Affine
	weight, scale, shift Array
}

// drawLayer draws weights [Out, In/Groups, kernel...], and a scale and a shift of each output where there are to be.
func (d *device) drawLayer(c Conv) *layer {
	d.t.Helper()
	l := &layer{weight: d.drawNormalArray(append([]int{c.Out, c.In / c.Groups}, c.Kernel...)...), scale: NewArray(c.Out), shift: NewArray(c.Out)}
	for i := range l.scale.V {
		l.scale.V[i] = 1
	}
	if c.Shifted {
		l.shift = d.drawNormalArray(c.Out)
		l.Shift = d.uploadVector(l.shift)
	}
	if c.Scaled {
		l.scale = d.drawNormalArray(c.Out)
		l.scale.V[0] = 0 // as of a channel that was pruned
		l.Scale = d.uploadVector(l.scale)
	}
	var err error
	if l.Filter, err = d.NewFilter(c.ConvSpec, hostTensor("weight", c.Out, c.Taps(), l.weight.V)); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(l.Free)
	return l
}

// uploadVector uploads elements, after which there is nothing else in the buffer.
func (d *device) uploadVector(x Array) kernels.Buffer {
	d.t.Helper()
	b, err := d.Alloc(4 * int64(len(x.V)))
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(b.Free)
	d.Write(b, 0, hostTensor("", 1, len(x.V), x.V).Data)
	return b
}

func (s suite) testFilter(t *testing.T) {
	d := newDevice(t, s.open)
	c := newSquareConv(1, 5, 6, 4, 2, 3, 1)
	f := d.drawLayer(c)
	if got := f.Spec(); fmt.Sprint(got) != fmt.Sprint(c.ConvSpec) || f.Bytes() <= 0 {
		t.Errorf("a filter of %+v says %+v, and has %d bytes", c.ConvSpec, got, f.Bytes())
	}
	// Weights of other types are converted.
	values := []float64{0.5, -2, 3, 0.25}
	for typ, code := range map[kernels.DType]func(x float64) uint16{
		kernels.BF16: func(x float64) uint16 { return uint16(math.Float32bits(float32(x)) >> 16) },
		kernels.F16: func(x float64) uint16 {
			frac, exp := math.Frexp(math.Abs(x))
			half := uint16(exp+14)<<10 + uint16(frac*2048) - 1024
			if x < 0 {
				half |= 0x8000
			}
			return half
		},
	} {
		w := kernels.HostTensor{Name: typ.String(), Type: typ, Rows: 4, Cols: 1}
		for _, v := range values {
			w.Data = binary.LittleEndian.AppendUint16(w.Data, code(v))
		}
		c := Conv{ConvSpec: kernels.ConvSpec{In: 1, Out: 4, Groups: 1, Kernel: []int{1}, Strides: []int{1}, Dilations: []int{1}}}
		f, err := d.NewFilter(c.ConvSpec, w)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Free()
		dst := d.imageResult(1, 1, 4)
		d.Conv(dst, d.uploadImage(Array{Shape: []int{1, 1, 1}, V: []float64{3}}), f, kernels.Affine{}, []int{0}, nil)
		d.checkEqual(typ.String(), d.readResult(typ.String(), dst), []float64{1.5, -6, 9, 0.75})
	}
}

// eachConv runs a test for shapes of networks and for random ones.
func (s suite) eachConv(t *testing.T, random int, test func(d *device, c Conv)) {
	for _, c := range convs {
		t.Run(c.String(), func(t *testing.T) { test(newDevice(t, s.open), c) })
	}
	d := newDevice(t, s.open)
	for range random {
		c := d.randomConv()
		t.Run(c.String(), func(t *testing.T) { test(d.inSubtest(t), c) })
	}
}

func (s suite) testConv(t *testing.T) {
	s.eachConv(t, 150, func(d *device, c Conv) { d.compareConv(c) })
	t.Run("NaN", func(t *testing.T) { s.testConvNaN(t) })
}

func (d *device) compareConv(c Conv) {
	d.t.Helper()
	l := d.drawLayer(c)
	x := d.drawNormalArray(c.InputShape()...)
	dst := d.imageResult(c.OutputShape()...)
	d.Conv(dst, d.uploadImage(x), l.Filter, l.Affine, c.Origin, nil)
	d.checkSums("convolution", d.readResult("convolution", dst), c.Forward(x, l))
}

// testConvNaN has numbers that are none in the input: they are seen where they are taps, and nowhere else.
func (s suite) testConvNaN(t *testing.T) {
	for _, c := range []Conv{newSquareConv(1, 9, 8, 8, 8, 3, 1), scaled(newSquareConv(1, 9, 16, 16, 1, 3, 1)), newSquareConv(1, 9, 16, 16, 1, 3, 1), newSquareConv(1, 9, 16, 16, 1, 1, 1), newSquareConv(1, 9, 3, 16, 1, 5, 2)} {
		d := newDevice(t, s.open)
		l := d.drawLayer(c)
		x := d.drawNormalArray(c.InputShape()...)
		x.V[d.upTo(len(x.V)-1)] = math.NaN()
		x.V[d.upTo(len(x.V)-1)] = math.Inf(1)
		dst := d.imageResult(c.OutputShape()...)
		d.Conv(dst, d.uploadImage(x), l.Filter, l.Affine, c.Origin, nil)
		d.checkSums("convolution", d.readResult("convolution", dst), c.Forward(x, l))
	}
}

func (s suite) testConvBackward(t *testing.T) {
	s.eachConv(t, 150, func(d *device, c Conv) { d.compareConvBackward(c) })
}

func (d *device) compareConvBackward(c Conv) {
	d.t.Helper()
	l := d.drawLayer(c)
	grad := d.drawNormalArray(c.OutputShape()...)
	dst := d.imageResult(c.InputShape()...)
	d.ConvBackward(dst, d.uploadImage(grad), l.Filter, c.Origin)
	d.checkSums("gradient", d.readResult("gradient", dst), c.Backward(grad, l.weight))
}
