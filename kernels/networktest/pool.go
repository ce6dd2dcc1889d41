package networktest

import (
	"math"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

func squarePool(kind string, size, channels, kernel, stride, pad, dilation int) Pool {
	outputs := (size+2*pad-dilation*(kernel-1)-1)/stride + 1
	return Pool{
		PoolSpec: kernels.PoolSpec{
			Max: kind == "max", Counted: kind == "counted", CountedEnd: []int{size + pad, size + pad},
			Kernel: []int{kernel, kernel}, Strides: []int{stride, stride}, Dilations: []int{dilation, dilation},
		},
		N: 2, Channels: channels, Input: []int{size, size}, Size: []int{outputs, outputs}, Origin: []int{-pad, -pad},
	}
}

// poolShapes are shapes as networks have them.
func poolShapes() []Pool {
	var all []Pool
	for _, kind := range []string{"max", "mean", "counted"} {
		all = append(all, squarePool(kind, 13, 64, 5, 1, 2, 1), squarePool(kind, 13, 17, 3, 2, 1, 1), squarePool(kind, 13, 3, 2, 2, 0, 1),
			squarePool(kind, 13, 16, 13, 1, 6, 1), squarePool(kind, 12, 8, 3, 1, 2, 2), squarePool(kind, 7, 40, 7, 7, 0, 1))
	}
	return all
}

func (d *device) randomPool() Pool {
	p := Pool{N: pickChoice(d, 1, 1, 2, 3), Channels: pickChoice(d, 1, 3, 8, 17, 64)}
	p.Max, p.Counted = d.upTo(1) == 0, d.upTo(1) == 0
	for range pickChoice(d, 1, 2, 2, 3) {
		p.Kernel = append(p.Kernel, pickChoice(d, 1, 2, 3, 4))
		p.Strides = append(p.Strides, pickChoice(d, 1, 1, 2, 3))
		p.Dilations = append(p.Dilations, pickChoice(d, 1, 1, 2))
		size := pickChoice(d, 1, 2, 5, 8)
		p.Input = append(p.Input, size)
		p.Size = append(p.Size, pickChoice(d, 1, 3, 6, 7))
		p.Origin = append(p.Origin, d.upTo(5)-4)
		p.CountedEnd = append(p.CountedEnd, size+d.upTo(4)-1)
	}
	return p
}

// eachPool runs a test for shapes of networks and for random ones.
func (s suite) eachPool(t *testing.T, test func(d *device, p Pool)) {
	for _, p := range poolShapes() {
		t.Run(p.String(), func(t *testing.T) { test(newDevice(t, s.open), p) })
	}
	d := newDevice(t, s.open)
	for range 150 {
		p := d.randomPool()
		t.Run(p.String(), func(t *testing.T) { test(d.inSubtest(t), p) })
	}
}

func (s suite) testPool(t *testing.T) {
	s.eachPool(t, func(d *device, p Pool) { d.comparePool(p, d.drawNormalArray(p.InputShape()...)) })
	t.Run("NaN", func(t *testing.T) {
		d := newDevice(t, s.open)
		for _, p := range poolShapes() {
			x := d.drawNormalArray(p.InputShape()...)
			for range 20 {
				x.V[d.upTo(len(x.V)-1)] = pickChoice(d, math.NaN(), math.Inf(-1), math.Inf(-1))
			}
			d.comparePool(p, x)
		}
	})
}

func (d *device) comparePool(p Pool, x Array) {
	d.t.Helper()
	dst := d.imageResult(p.OutputShape()...)
	d.Pool(dst, d.uploadImage(x), p.PoolSpec, p.Origin)
	d.checkSums("pool", d.readResult("pool", dst), p.Forward(x))
}

func (s suite) testPoolBackward(t *testing.T) {
	s.eachPool(t, func(d *device, p Pool) { d.comparePoolBackward(p, d.drawNormalArray(p.InputShape()...)) })
}

func (d *device) comparePoolBackward(p Pool, x Array) {
	d.t.Helper()
	grad := d.drawNormalArray(p.OutputShape()...)
	dst, src := d.imageResult(p.InputShape()...), kernels.Tensor{}
	if p.Max { // a mean does not read it
		src = d.uploadImage(x)
	}
	d.PoolBackward(dst, d.uploadImage(grad), src, p.PoolSpec, p.Origin)
	d.checkSums("gradient", d.readResult("gradient", dst), p.Backward(x, grad))
}

// testPoolTies has few different values, so that most maxima are there more than once: the first one gets all.
func (s suite) testPoolTies(t *testing.T) {
	d := newDevice(t, s.open)
	for i := range 60 {
		p := poolShapes()[i%6]
		if i >= 30 {
			p = d.randomPool()
			p.Max = true
		}
		x := NewArray(p.InputShape()...)
		for j := range x.V {
			x.V[j] = pickChoice(d, -1, 0, 1, math.Copysign(0, -1))
			if i%5 == 0 && d.upTo(3) == 0 {
				x.V[j] = pickChoice(d, math.NaN(), math.Inf(-1))
			}
			if i%7 == 0 {
				x.V[j] = math.Inf(-1)
			}
		}
		d.comparePoolBackward(p, x)
	}
}
