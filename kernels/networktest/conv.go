package networktest

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// conv is a convolution with the sizes of its input and output.
type conv struct {
	kernels.ConvSpec
	n           int
	input, size []int // spatial
	origin      []int
	bias        bool
}

func (c conv) String() string {
	return fmt.Sprintf("%dx%v-%d-to-%v-%d-groups%d-kernel%v-strides%v-dilations%v-origin%v-bias=%t",
		c.n, c.input, c.In, c.size, c.Out, c.Groups, c.Kernel, c.Strides, c.Dilations, c.origin, c.bias)
}

func (c conv) inputShape() []int  { return append(append([]int{c.n}, c.input...), c.In) }
func (c conv) outputShape() []int { return append(append([]int{c.n}, c.size...), c.Out) }

// square is a convolution of two dimensions with padding that keeps the size, but for strides.
func square(n, size, in, out, groups, kernel, stride int) conv {
	outputs := (size + stride - 1) / stride
	return conv{
		ConvSpec: kernels.ConvSpec{In: in, Out: out, Groups: groups, Kernel: []int{kernel, kernel}, Strides: []int{stride, stride}, Dilations: []int{1, 1}},
		n:        n, input: []int{size, size}, size: []int{outputs, outputs}, origin: []int{-(kernel / 2), -(kernel / 2)}, bias: true,
	}
}

// convs are shapes as networks have them.
var convs = []conv{
	square(1, 7, 3, 16, 1, 3, 2),
	square(2, 13, 16, 16, 16, 3, 1),
	square(1, 9, 24, 24, 24, 5, 1),
	square(1, 8, 24, 24, 24, 5, 2),
	square(3, 5, 64, 33, 1, 1, 1),
	square(1, 1, 64, 64, 1, 1, 1),
	square(1, 6, 32, 64, 1, 3, 1),
	square(2, 10, 17, 17, 17, 3, 2),
	square(1, 12, 3, 8, 1, 6, 2),
	square(1, 11, 3, 64, 1, 7, 2),
	square(1, 6, 32, 32, 2, 3, 1),
	square(1, 5, 8, 24, 8, 3, 1),
	square(1, 5, 40, 40, 5, 1, 1),
	square(1, 40, 4, 4, 4, 3, 1),
}

// maxProducts bounds the products of a random convolution.
const maxProducts = 200_000

// randomConv draws one, of which no figure need go with another.
func (d *device) randomConv() conv {
	for {
		c := conv{n: one(d, 1, 1, 2, 3), bias: d.upTo(1) == 0}
		c.In, c.Out = one(d, 1, 3, 8, 16, 17, 64), one(d, 1, 3, 8, 16, 17, 64)
		switch c.Groups = 1; d.upTo(2) {
		case 1: // depthwise
			c.Groups = c.In
			c.Out = c.In * one(d, 1, 1, 1, 2, 3)
		case 2:
			c.Groups = one(d, 1, 2, 4)
			c.In, c.Out = c.Groups*one(d, 1, 3, 8), c.Groups*one(d, 1, 5, 8)
		}
		for range one(d, 1, 2, 2, 2, 3) {
			c.Kernel = append(c.Kernel, one(d, 1, 2, 3, 3, 5))
			c.Strides = append(c.Strides, one(d, 1, 1, 2, 3))
			c.Dilations = append(c.Dilations, one(d, 1, 1, 1, 2, 3))
			c.input = append(c.input, one(d, 1, 2, 5, 8, 13))
			c.size = append(c.size, one(d, 1, 3, 6, 7, 17))
			c.origin = append(c.origin, d.upTo(7)-5)
		}
		if float64(c.Taps())*float64(product(c.outputShape())) < maxProducts {
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

// filter draws weights [Out, In/Groups, kernel...] and a bias.
func (d *device) filter(c conv) (f kernels.Filter, weight, bias array) {
	d.t.Helper()
	weight, bias = d.normal(append([]int{c.Out, c.In / c.Groups}, c.Kernel...)...), newArray(c.Out)
	var added kernels.HostTensor
	if c.bias {
		bias = d.normal(c.Out)
		added = hostTensor("bias", 1, c.Out, bias.v)
	}
	f, err := d.NewFilter(c.ConvSpec, hostTensor("weight", c.Out, c.Taps(), weight.v), added)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(f.Free)
	return f, weight, bias
}

// products calls do with every product of the convolution, as places of its output, input and weight.
func (c conv) products(do func(output, input, weight []int)) {
	spatial := len(c.Kernel)
	in, out := c.In/c.Groups, c.Out/c.Groups
	input, weight := make([]int, spatial+2), make([]int, spatial+2)
	places(c.outputShape(), func(output []int) {
		weight[0] = output[spatial+1]
		input[0] = output[0]
		places(append([]int{in}, c.Kernel...), func(tap []int) {
			copy(weight[1:], tap)
			input[spatial+1] = weight[0]/out*in + tap[0]
			for i := range spatial {
				input[i+1] = output[i+1]*c.Strides[i] + c.origin[i] + tap[i+1]*c.Dilations[i]
			}
			do(output, input, weight)
		})
	})
}

// expected is the oracle's convolution.
func (c conv) expected(x, weight, bias array) []sum {
	out := newArray(c.outputShape()...)
	sums := make([]sum, len(out.v))
	for i := range sums {
		sums[i].add(bias.v[i%c.Out])
	}
	c.products(func(output, input, w []int) {
		if x.has(input) {
			sums[out.index(output)].add(x.at(input) * weight.at(w))
		}
	})
	return sums
}

// expectedBackward is the oracle's gradient of the input.
func (c conv) expectedBackward(grad, weight array) []sum {
	in := newArray(c.inputShape()...)
	sums := make([]sum, len(in.v))
	c.products(func(output, input, w []int) {
		if in.has(input) {
			sums[in.index(input)].add(grad.at(output) * weight.at(w))
		}
	})
	return sums
}

func (s suite) testFilter(t *testing.T) {
	d := newDevice(t, s.open)
	c := square(1, 5, 6, 4, 2, 3, 1)
	f, _, _ := d.filter(c)
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
		c := conv{ConvSpec: kernels.ConvSpec{In: 1, Out: 4, Groups: 1, Kernel: []int{1}, Strides: []int{1}, Dilations: []int{1}}}
		f, err := d.NewFilter(c.ConvSpec, w, w)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Free()
		dst := d.imageResult(1, 1, 4)
		d.Conv(dst, d.image(array{[]int{1, 1, 1}, []float64{3}}), f, []int{0}, nil)
		d.checkEqual(typ.String(), d.got(typ.String(), dst), []float64{2, -8, 12, 1})
	}
}

// eachConv runs a test for shapes of networks and for random ones.
func (s suite) eachConv(t *testing.T, random int, test func(d *device, c conv)) {
	for _, c := range convs {
		t.Run(c.String(), func(t *testing.T) { test(newDevice(t, s.open), c) })
	}
	d := newDevice(t, s.open)
	for range random {
		c := d.randomConv()
		t.Run(c.String(), func(t *testing.T) { test(&device{d.Networks, t, d.random}, c) })
	}
}

func (s suite) testConv(t *testing.T) {
	s.eachConv(t, 150, func(d *device, c conv) { d.compareConv(c) })
	t.Run("NaN", func(t *testing.T) { s.testConvNaN(t) })
}

func (d *device) compareConv(c conv) {
	d.t.Helper()
	f, weight, bias := d.filter(c)
	x := d.normal(c.inputShape()...)
	dst := d.imageResult(c.outputShape()...)
	d.Conv(dst, d.image(x), f, c.origin, nil)
	d.checkSums("convolution", d.got("convolution", dst), c.expected(x, weight, bias))
}

// testConvNaN has numbers that are none in the input: they are seen where they are taps, and nowhere else.
func (s suite) testConvNaN(t *testing.T) {
	for _, c := range []conv{square(1, 9, 8, 8, 8, 3, 1), square(1, 9, 16, 16, 1, 3, 1), square(1, 9, 16, 16, 1, 1, 1), square(1, 9, 3, 16, 1, 5, 2)} {
		d := newDevice(t, s.open)
		f, weight, bias := d.filter(c)
		x := d.normal(c.inputShape()...)
		x.v[d.upTo(len(x.v)-1)] = math.NaN()
		x.v[d.upTo(len(x.v)-1)] = math.Inf(1)
		dst := d.imageResult(c.outputShape()...)
		d.Conv(dst, d.image(x), f, c.origin, nil)
		d.checkSums("convolution", d.got("convolution", dst), c.expected(x, weight, bias))
	}
}

func (s suite) testConvBackward(t *testing.T) {
	s.eachConv(t, 150, func(d *device, c conv) { d.compareConvBackward(c) })
}

func (d *device) compareConvBackward(c conv) {
	d.t.Helper()
	f, weight, _ := d.filter(c)
	grad := d.normal(c.outputShape()...)
	dst := d.imageResult(c.inputShape()...)
	d.ConvBackward(dst, d.image(grad), f, c.origin)
	d.checkSums("gradient", d.got("gradient", dst), c.expectedBackward(grad, weight))
}
