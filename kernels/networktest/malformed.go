package networktest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// testEmpty computes nothing, and out of nothing.
func (s suite) testEmpty(t *testing.T) {
	d := newDevice(t, s.open)
	for _, change := range []func(c *Conv){
		func(c *Conv) { c.N = 0 },
		func(c *Conv) { c.Size = []int{0, 3} },
		func(c *Conv) { c.Size = []int{3, 0} },
		func(c *Conv) { c.Input = []int{0, 5} },
		func(c *Conv) { c.Input = []int{5, 0} },
		func(c *Conv) { c.Origin = []int{1000, -1000} },
	} {
		c := newSquareConv(2, 5, 8, 16, 1, 3, 1)
		change(&c)
		d.compareConv(c)
		d.compareConvBackward(c)
		for _, p := range []Pool{squarePool("max", 5, 8, 3, 1, 1, 1), squarePool("mean", 5, 8, 3, 1, 1, 1), squarePool("counted", 5, 8, 3, 1, 1, 1)} {
			p.N, p.Input, p.Size, p.Origin = c.N, c.Input, c.Size, c.Origin
			x := d.drawNormalArray(p.InputShape()...)
			d.comparePool(p, x)
			d.comparePoolBackward(p, x)
		}
	}
	for _, shape := range [][]int{{0}, {3, 0}, {0, 3}, {2, 0, 5}} {
		for i := range shape {
			d.compareInterpolate(shape, i, shape[i])
			d.compareInterpolate(shape, i, 4)
		}
		for how := range reductions {
			for set := range 1 << len(shape) {
				d.compareReduce(how, shape, set, d.drawNormalArray(shape...))
			}
		}
		d.compareMap(silu, shape, false)
		d.compareMatMul(shape, 2, 3, 4)
	}
	d.compareMatMul(nil, 0, 3, 4)
	d.compareMatMul(nil, 3, 0, 4)
}

// testMalformed makes calls that do not fit: each is an error of Sync, after which nothing is written, and the
// next call computes.
func (s suite) testMalformed(t *testing.T) {
	d := newDevice(t, s.open)
	c := newSquareConv(1, 6, 8, 8, 1, 3, 1)
	f := d.drawLayer(c)
	x, y := d.uploadImage(d.drawNormalArray(1, 6, 6, 8)), d.imageResult(1, 6, 6, 8)
	with := func(t kernels.Tensor, change func(t *kernels.Tensor)) kernels.Tensor {
		t.Shape, t.Stride = slices.Clone(t.Shape), slices.Clone(t.Stride)
		change(&t)
		return t
	}
	// reach calls do with views that leave their buffers, or are none.
	reach := func(of kernels.Tensor, do func(what string, bad kernels.Tensor)) {
		for what, change := range map[string]func(t *kernels.Tensor){
			"a row too many":    func(t *kernels.Tensor) { t.Shape[1] = 100 },
			"too wide a stride": func(t *kernels.Tensor) { t.Stride[1] *= 100 },
			"a huge stride":     func(t *kernels.Tensor) { t.Stride[1] = math.MaxInt64 / 3 },
			"huge":              func(t *kernels.Tensor) { t.Shape[1], t.Shape[2] = math.MaxInt32, math.MaxInt32 },
			"before the buffer": func(t *kernels.Tensor) { t.Off = -4 },
			"after the buffer":  func(t *kernels.Tensor) { t.Off = t.Buf.Bytes() },
			"between elements":  func(t *kernels.Tensor) { t.Off += 2 },
			"less than nothing": func(t *kernels.Tensor) { t.Shape[1] = -1 },
			"without a stride":  func(t *kernels.Tensor) { t.Stride = t.Stride[:2] },
			"without a buffer":  func(t *kernels.Tensor) { t.Buf = nil },
			"nothing":           func(t *kernels.Tensor) { *t = kernels.Tensor{} },
			"of nine dimensions": func(t *kernels.Tensor) {
				t.Shape, t.Stride = append(t.Shape, 1, 1, 1, 1, 1), append(t.Stride, 1, 1, 1, 1, 1)
			},
		} {
			do(what, with(of, change))
		}
	}
	refused := func(what string, call func()) {
		t.Helper()
		call()
		if err := d.Sync(); err == nil {
			t.Errorf("%s: no error", what)
		}
		for i, b := range d.elementBits(y) {
			if b != untouched {
				t.Fatalf("%s: element %d was written", what, i)
			}
		}
		d.checkGaps(what, y)
	}
	o, spec := c.Origin, squarePool("max", 6, 8, 3, 1, 1, 1).PoolSpec
	one := kernels.Taps{Start: []int32{0, 1, 2, 3, 4, 5, 6}, Index: []int32{0, 0, 0, 0, 0, 0}, Weight: make([]float32, 6)}
	add := newProgram(2, kernels.Instruction{Op: kernels.Add, A: 0, B: 1})
	for _, side := range []string{"result", "operand"} {
		of := map[string]kernels.Tensor{"result": y, "operand": x}[side]
		reach(of, func(what string, bad kernels.Tensor) {
			dst, src := bad, x
			if side == "operand" {
				dst, src = y, bad
			}
			for name, call := range map[string]func(){
				"Conv":         func() { d.Conv(dst, src, f.Filter, f.Affine, o, nil) },
				"Conv, then":   func() { d.Conv(dst, x, f.Filter, f.Affine, o, add, src) },
				"ConvBackward": func() { d.ConvBackward(dst, src, f.Filter, o) },
				"Pool":         func() { d.Pool(dst, src, spec, o) },
				"PoolBackward": func() { d.PoolBackward(dst, src, src, spec, o) },
				"Interpolate":  func() { d.Interpolate(dst, src, 1, one) },
				"MatMul":       func() { d.MatMul(dst, src, src) },
				"Map":          func() { d.Map(dst, silu, src) },
				"Map of two":   func() { d.Map(dst, add, x, src) },
				"Reduce":       func() { d.Reduce(dst, src, kernels.Sum) },
			} {
				refused(fmt.Sprintf("%s with a %s: %s", name, side, what), call)
			}
		})
	}
	s.refuseFigures(d, f, x, y, refused)
	s.refuseFilters(d)

	// What fits still computes.
	d.Conv(y, x, f.Filter, f.Affine, o, silu)
	d.readResult("convolution", y)
}

// refuseFigures calls with operands that fit their buffers but not each other.
func (s suite) refuseFigures(d *device, f *layer, x, y kernels.Tensor, refused func(what string, call func())) {
	o := []int{-1, -1}
	spec := squarePool("max", 6, 8, 3, 1, 1, 1).PoolSpec
	add := newProgram(2, kernels.Instruction{Op: kernels.Add, A: 0, B: 1})
	turned := x
	turned.Shape, turned.Stride = []int{1, 6, 6, 8}, []int{x.Stride[0], x.Stride[2], x.Stride[1], x.Stride[3]}
	narrow, short, flat := sliceTensor(x, 3, 0, 7), sliceTensor(x, 1, 0, 5), kernels.Tensor{Buf: x.Buf, Off: x.Off, Shape: []int{6}, Stride: []int{1}}
	over, seven := y, d.uploadVector(NewArray(7))
	over.Stride = []int{1, 1, 8, 1}
	taps := func(start, index []int32, weights int) kernels.Taps {
		return kernels.Taps{Start: start, Index: index, Weight: make([]float32, weights)}
	}
	six := []int32{0, 1, 2, 3, 4, 5, 6}
	for what, call := range map[string]func(){
		"too few channels":               func() { d.Conv(y, narrow, f.Filter, f.Affine, o, nil) },
		"too few channels of the result": func() { d.Conv(sliceTensor(y, 3, 0, 7), x, f.Filter, f.Affine, o, nil) },
		"too few dimensions":             func() { d.Conv(y, flat, f.Filter, f.Affine, o, nil) },
		"dimensions turned":              func() { d.Conv(y, turned, f.Filter, f.Affine, o, nil) },
		"an origin of one dimension":     func() { d.Conv(y, x, f.Filter, f.Affine, o[:1], nil) },
		"an origin far away":             func() { d.Conv(y, x, f.Filter, f.Affine, []int{math.MaxInt64, 0}, nil) },
		"operands without a program":     func() { d.Conv(y, x, f.Filter, f.Affine, o, nil, x) },
		"a program without operands":     func() { d.Conv(y, x, f.Filter, f.Affine, o, add) },
		"an operand of another shape":    func() { d.Conv(y, x, f.Filter, f.Affine, o, add, short) },
		"a result that is not there":     func() { d.Conv(y, x, f.Filter, f.Affine, o, siluWithOutput(0)) },
		"a result of another shape":      func() { d.Conv(y, x, f.Filter, f.Affine, o, siluWithOutput(0), short) },
		"a register that is no result":   func() { d.Conv(y, x, f.Filter, f.Affine, o, siluWithOutput(3), x) },
		"another result over itself":     func() { d.Conv(y, x, f.Filter, f.Affine, o, siluWithOutput(0), repeatFirstRow(x)) },
		"a map of two results":           func() { d.Map(y, siluWithOutput(0), x) },
		"a shift of too few outputs":     func() { d.Conv(y, x, f.Filter, kernels.Affine{Shift: seven}, o, nil) },
		"a scale of too few outputs":     func() { d.Conv(y, x, f.Filter, kernels.Affine{Scale: seven, Shift: f.Shift}, o, nil) },
		"a scale without a shift":        func() { d.Conv(y, x, f.Filter, kernels.Affine{Scale: f.Shift}, o, nil) },
		"no filter":                      func() { d.Conv(y, x, nil, f.Affine, o, nil) },
		"another's filter":               func() { d.Conv(y, x, strange{}, f.Affine, o, nil) },
		"another's filter, backward":     func() { d.ConvBackward(y, x, strange{}, o) },
		"a result over itself":           func() { d.Conv(over, x, f.Filter, f.Affine, o, nil) },
		"too few channels, backward":     func() { d.ConvBackward(y, narrow, f.Filter, o) },
		"a pool of other channels":       func() { d.Pool(y, narrow, spec, o) },
		"a pool of three dimensions": func() {
			d.Pool(y, x, kernels.PoolSpec{Kernel: []int{1, 1, 1}, Strides: []int{1, 1, 1}, Dilations: []int{1, 1, 1}}, []int{0, 0, 0})
		},
		"a pool without strides": func() { d.Pool(y, x, kernels.PoolSpec{Kernel: []int{1, 1}}, o) },
		"a pool with a stride of 0": func() {
			d.Pool(y, x, kernels.PoolSpec{Kernel: []int{1, 1}, Strides: []int{1, 0}, Dilations: []int{1, 1}}, o)
		},
		"a mean that counts nothing said": func() {
			d.Pool(y, x, kernels.PoolSpec{Counted: true, Kernel: []int{1, 1}, Strides: []int{1, 1}, Dilations: []int{1, 1}}, o)
		},
		"a pool's input of another size":        func() { d.PoolBackward(y, x, short, spec, o) },
		"taps along no dimension":               func() { d.Interpolate(y, x, 4, taps(six, make([]int32, 6), 6)) },
		"taps along dimension -1":               func() { d.Interpolate(y, x, -1, taps(six, make([]int32, 6), 6)) },
		"too few taps":                          func() { d.Interpolate(y, x, 1, taps(six[:5], make([]int32, 6), 6)) },
		"taps without weights":                  func() { d.Interpolate(y, x, 1, taps(six, make([]int32, 6), 5)) },
		"taps backwards":                        func() { d.Interpolate(y, x, 1, taps([]int32{0, 2, 1, 3, 4, 5, 6}, make([]int32, 6), 6)) },
		"taps that end too late":                func() { d.Interpolate(y, x, 1, taps([]int32{0, 1, 2, 3, 4, 5, 7}, make([]int32, 6), 6)) },
		"taps before the first":                 func() { d.Interpolate(y, x, 1, taps([]int32{-1, 1, 2, 3, 4, 5, 6}, make([]int32, 6), 6)) },
		"a tap outside of the input":            func() { d.Interpolate(y, x, 1, taps(six, []int32{0, 0, 6, 0, 0, 0}, 6)) },
		"a tap below the input":                 func() { d.Interpolate(y, x, 1, taps(six, []int32{0, 0, -1, 0, 0, 0}, 6)) },
		"interpolation of other sizes":          func() { d.Interpolate(y, narrow, 1, taps(six, make([]int32, 6), 6)) },
		"matrices that do not fit":              func() { d.MatMul(y, x, x) },
		"a matrix of one dimension":             func() { d.MatMul(flat, flat, flat) },
		"no program":                            func() { d.Map(y, nil, x) },
		"an empty program":                      func() { d.Map(y, newProgram(1), x) },
		"too few operands":                      func() { d.Map(y, add, x) },
		"too many operands":                     func() { d.Map(y, silu, x, x) },
		"an operand of other size":              func() { d.Map(y, add, x, short) },
		"a register that is not there":          func() { d.Map(y, newProgram(1, kernels.Instruction{Op: kernels.Add, A: 0, B: 1}), x) },
		"a register below the first":            func() { d.Map(y, newProgram(1, kernels.Instruction{Op: kernels.Neg, A: -1}), x) },
		"an operation that is none":             func() { d.Map(y, newProgram(1, kernels.Instruction{Op: 200}), x) },
		"a map over itself":                     func() { d.Map(over, silu, x) },
		"a result that repeats":                 func() { d.Map(repeatFirstRow(y), silu, x) },
		"a reduction that is none":              func() { d.Reduce(y, x, 9) },
		"a reduction to other sizes":            func() { d.Reduce(y, short, kernels.Sum) },
		"a reduction to other dimensions":       func() { d.Reduce(y, flat, kernels.Sum) },
		"a reduction to nothing":                func() { d.Reduce(sliceTensor(y, 1, 0, 0), x, kernels.Sum) },
		"a reduction that makes one again many": func() { d.Reduce(y, sliceTensor(x, 1, 0, 1), kernels.Sum) },
	} {
		refused(what, call)
	}
}

// siluWithOutput is SiLU with a register as another result.
func siluWithOutput(register int) *kernels.Program {
	return &kernels.Program{Operands: 1, Code: silu.Code, Also: []int{register}}
}

// repeatFirstRow is a view whose rows are all the first one.
func repeatFirstRow(t kernels.Tensor) kernels.Tensor {
	t.Stride = slices.Clone(t.Stride)
	t.Stride[1] = 0
	return t
}

// strange is a filter of no backend.
type strange struct{}

func (strange) Spec() kernels.ConvSpec { return newSquareConv(1, 6, 8, 8, 1, 3, 1).ConvSpec }
func (strange) Bytes() int64           { return 0 }
func (strange) Free()                  {}

// refuseFilters makes filters of weights that do not fit.
func (s suite) refuseFilters(d *device) {
	good := newSquareConv(1, 6, 8, 8, 2, 3, 1).ConvSpec
	weight := hostTensor("weight", 8, 36, make([]float64, 8*36))
	truncated := weight
	truncated.Data = weight.Data[:100]
	eight := kernels.HostTensor{Name: "FP8", Type: kernels.F8E4M3, Rows: 8, Cols: 36, Data: make([]byte, 8*36), Scale: make([]float32, 8)}
	integers := eight
	integers.Name, integers.Type = "int8", kernels.I8
	for what, w := range map[string]kernels.HostTensor{
		"no weight":        {},
		"truncated weight": truncated,
		"too few weights":  hostTensor("weight", 8, 35, make([]float64, 8*35)),
		"too few outputs":  hostTensor("weight", 7, 36, make([]float64, 7*36)),
		"weights in FP8":   eight,
		"weights in int8":  integers,
	} {
		if _, err := d.NewFilter(good, w); err == nil {
			d.t.Errorf("%s: no error", what)
		}
	}
	for what, change := range map[string]func(s *kernels.ConvSpec){
		"no groups":              func(s *kernels.ConvSpec) { s.Groups = 0 },
		"groups that divide not": func(s *kernels.ConvSpec) { s.Groups = 3 },
		"no channels":            func(s *kernels.ConvSpec) { s.In = 0 },
		"no kernel":              func(s *kernels.ConvSpec) { s.Kernel = nil },
		"a kernel of 0":          func(s *kernels.ConvSpec) { s.Kernel = []int{3, 0} },
		"a stride of 0":          func(s *kernels.ConvSpec) { s.Strides = []int{0, 1} },
		"one dilation":           func(s *kernels.ConvSpec) { s.Dilations = []int{1} },
		"four dimensions": func(s *kernels.ConvSpec) {
			s.Kernel, s.Strides, s.Dilations = []int{1, 1, 3, 3}, []int{1, 1, 1, 1}, []int{1, 1, 1, 1}
		},
		"too many weights": func(s *kernels.ConvSpec) { s.In, s.Out = 1<<40, 1<<40 },
	} {
		spec := good
		change(&spec)
		if _, err := d.NewFilter(spec, weight); err == nil {
			d.t.Errorf("%s: no error", what)
		}
	}
}
