package networktest

import (
	"math"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// newProgram is a program whose instructions are given one after another.
func newProgram(operands int, instructions ...kernels.Instruction) *kernels.Program {
	return &kernels.Program{Operands: operands, Code: instructions}
}

// silu is x times its sigmoid (Hendrycks and Gimpel, 2016).
var silu = newProgram(1, kernels.Instruction{Op: kernels.Sigmoid, A: 0}, kernels.Instruction{Op: kernels.Mul, A: 0, B: 1})

// programs are those of networks, all with results not much larger than their operands.
var programs = map[string]*kernels.Program{
	"SiLU":         silu,
	"ReLU":         newProgram(1, kernels.Instruction{Op: kernels.Constant}, kernels.Instruction{Op: kernels.Max, A: 0, B: 1}),
	"residual add": newProgram(2, kernels.Instruction{Op: kernels.Add, A: 0, B: 1}),
	"SiLU and residual add": newProgram(2, kernels.Instruction{Op: kernels.Sigmoid, A: 0}, kernels.Instruction{Op: kernels.Mul, A: 0, B: 2},
		kernels.Instruction{Op: kernels.Add, A: 1, B: 3}),
	"hard swish": newProgram(1, kernels.Instruction{Op: kernels.Constant, X: 1. / 6}, kernels.Instruction{Op: kernels.Mul, A: 0, B: 1},
		kernels.Instruction{Op: kernels.Constant, X: 0.5}, kernels.Instruction{Op: kernels.Add, A: 2, B: 3},
		kernels.Instruction{Op: kernels.Constant, X: 0}, kernels.Instruction{Op: kernels.Max, A: 4, B: 5},
		kernels.Instruction{Op: kernels.Constant, X: 1}, kernels.Instruction{Op: kernels.Min, A: 6, B: 7}, kernels.Instruction{Op: kernels.Mul, A: 0, B: 8}),
	"GELU": newProgram(1, kernels.Instruction{Op: kernels.Constant, X: math.Sqrt2 / 2}, kernels.Instruction{Op: kernels.Mul, A: 0, B: 1},
		kernels.Instruction{Op: kernels.Erf, A: 2}, kernels.Instruction{Op: kernels.Constant, X: 1}, kernels.Instruction{Op: kernels.Add, A: 3, B: 4},
		kernels.Instruction{Op: kernels.Mul, A: 0, B: 5}, kernels.Instruction{Op: kernels.Constant, X: 0.5}, kernels.Instruction{Op: kernels.Mul, A: 6, B: 7}),
	"leaky ReLU of the scaled": newProgram(3, kernels.Instruction{Op: kernels.Mul, A: 0, B: 1}, kernels.Instruction{Op: kernels.Add, A: 3, B: 2},
		kernels.Instruction{Op: kernels.Constant, X: 0.1}, kernels.Instruction{Op: kernels.Mul, A: 4, B: 5}, kernels.Instruction{Op: kernels.Max, A: 4, B: 6}),
	"SiLU after its slope": newProgram(1, kernels.Instruction{Op: kernels.Constant, X: 1}, kernels.Instruction{Op: kernels.Sigmoid, A: 0},
		kernels.Instruction{Op: kernels.Sub, A: 1, B: 2}, kernels.Instruction{Op: kernels.Mul, A: 0, B: 3}, kernels.Instruction{Op: kernels.Add, A: 1, B: 4},
		kernels.Instruction{Op: kernels.Mul, A: 5, B: 2}, kernels.Instruction{Op: kernels.Mul, A: 0, B: 2}),
	"SiLU of a sum": newProgram(2, kernels.Instruction{Op: kernels.Add, A: 0, B: 1}, kernels.Instruction{Op: kernels.Sigmoid, A: 2},
		kernels.Instruction{Op: kernels.Mul, A: 2, B: 3}),
	"gradient of an activation":  newProgram(2, kernels.Instruction{Op: kernels.Mul, A: 0, B: 1}),
	"gradients of an activation": newProgram(3, kernels.Instruction{Op: kernels.Add, A: 1, B: 0}, kernels.Instruction{Op: kernels.Mul, A: 3, B: 2}),
	"second operand":             newProgram(2, kernels.Instruction{Op: kernels.Copy, A: 1}),
	"constant":                   newProgram(1, kernels.Instruction{Op: kernels.Constant, X: 3}),
}

// randomProgram draws exact instructions that read any registers, so that every bit of the result is known.
func (d *device) randomProgram(operands, length int) *kernels.Program {
	p := &kernels.Program{Operands: operands}
	for i := range length {
		in := kernels.Instruction{Op: kernels.ElementOp(d.upTo(kernels.ElementOps - 1))}
		for in.Op != kernels.Constant && !Exact(in.Op) || in.Op != kernels.Constant && operands+i == 0 {
			in.Op = kernels.ElementOp(d.upTo(kernels.ElementOps - 1))
		}
		in.X = float32(d.random.NormFloat64())
		if n := operands + i; n > 0 {
			in.A, in.B, in.C = n-1-d.upTo(min(n-1, 3)), d.upTo(n-1), d.upTo(n-1)
		}
		p.Code = append(p.Code, in)
	}
	return p
}

// testPrograms runs long programs, of which each instruction must be rounded.
func (s suite) testPrograms(t *testing.T) {
	d := newDevice(t, s.open)
	for i := range 150 {
		d.compareProgram(d.randomProgram(d.upTo(4), 1+d.upTo(i)), d.randomShape(0, 4, 1, 2, 5, 16, 33))
	}
	d.compareProgram(d.randomProgram(20, 1000), []int{3, 50})
}

func (d *device) compareProgram(p *kernels.Program, shape []int) {
	d.t.Helper()
	var in []kernels.Tensor
	var values []Array
	for range p.Operands {
		x := d.drawNormalArray(shape...)
		if d.upTo(3) == 0 {
			for i := range x.V {
				x.V[i] = float64(pickChoice(d, specials...))
			}
		}
		t, x := d.uploadOperand(x)
		in, values = append(in, t), append(values, x)
	}
	dst := d.newResult(shape...)
	d.Map(dst, p, in...)
	for i, got := range d.readResult("program", dst).V {
		operands := make([]float32, len(values))
		for j, x := range values {
			operands[j] = float32(x.V[i])
		}
		if want, known := Evaluate(p, operands); known && float32(got) != want && (got == got || want == want) {
			d.t.Fatalf("element %d of %v is %v, want %v, by the program %+v of %v", i, shape, got, want, *p, operands)
		}
	}
}

// testMap runs the programs of networks over views of all kinds, and in place.
func (s suite) testMap(t *testing.T) {
	for name, p := range programs {
		t.Run(name, func(t *testing.T) {
			d := newDevice(t, s.open)
			for range 30 {
				d.compareMap(p, d.randomShape(0, 5, 1, 2, 3, 8, 17), false)
				d.compareMap(p, d.randomShape(0, 5, 1, 2, 3, 8, 17), true)
			}
			d.compareMap(p, []int{2, 26, 26, 24}, false)
			d.compareMap(p, []int{100000}, true)
		})
	}
}

// testCopies copies columns to rows side by side, and elements that lie 2 or 3 apart, as pictures and shuffled channels are.
func (s suite) testCopies(t *testing.T) {
	d := newDevice(t, s.open)
	for n := 1; n < 70; n++ {
		for apart := 1; apart <= 3; apart++ {
			for cols := 2; cols <= 4; cols++ {
				d.compareCopy([]int{n, cols}, []int{pickChoice(d, cols, cols+1, 6, 7, -6), 1}, []int{apart, apart*n + d.upTo(3)})
			}
			d.compareCopy([]int{3, n}, []int{n + d.upTo(3), 1}, []int{apart*n + d.upTo(3), apart})
		}
	}
}

func (d *device) compareCopy(shape, to, from []int) {
	d.t.Helper()
	dst, x := d.newView(shape, to), d.drawNormalArray(shape...)
	d.Map(dst, &kernels.Program{Operands: 1, Code: []kernels.Instruction{{Op: kernels.Copy}}}, d.writeElements(d.newView(shape, from), x))
	for i, got := range d.readResult("copy", dst).V {
		if got != x.V[i] {
			d.t.Fatalf("element %d of %v with strides %v from %v is %v, want %v", i, shape, to, from, got, x.V[i])
		}
	}
}

// testImport compares tensors that are read in host memory with copies of them on the device.
func (s suite) testImport(t *testing.T) {
	d := newDevice(t, s.open)
	to, ok := d.Networks.(kernels.Importer)
	if !ok {
		t.Skip("it reads no host memory")
	}
	for range 200 {
		d.compareImport(to, d.randomShape(0, 5, 1, 2, 3, 8, 17))
	}
	d.compareImport(to, []int{3, 208, 416})
	to.Import(d.newResult(4), kernels.Tensor{Shape: []int{4}, Stride: []int{1}}, make([]byte, 12))
	if err := d.Sync(); err == nil {
		t.Error("a tensor that ends behind the data is no error")
	}
}

func (d *device) compareImport(to kernels.Importer, shape []int) {
	d.t.Helper()
	dst := d.newResult(shape...)
	src, x := d.uploadOperand(d.drawNormalArray(shape...))
	data := make([]byte, src.Buf.Bytes())
	d.Read(data, src.Buf, 0)
	src.Buf = nil
	to.Import(dst, src, data)
	clear(data)
	for i, got := range d.readResult("import", dst).V {
		if got != x.V[i] {
			d.t.Fatalf("element %d of %v is %v, want %v", i, shape, got, x.V[i])
		}
	}
}

func (d *device) compareMap(p *kernels.Program, shape []int, inPlace bool) {
	d.t.Helper()
	dst := d.newResult(shape...)
	var in []kernels.Tensor
	var values []Array
	for i := range p.Operands {
		t, x := kernels.Tensor{}, d.drawNormalArray(shape...)
		if inPlace && i == p.Operands-1 {
			t = d.writeElements(dst, x)
		} else {
			t, x = d.uploadOperand(x)
		}
		in, values = append(in, t), append(values, x)
	}
	d.Map(dst, p, in...)
	d.checkProgram(p, d.readResult("map", dst), values)
}

// checkProgram compares a result with a program's that makes its operands not much larger.
func (d *device) checkProgram(p *kernels.Program, got Array, operands []Array) {
	d.t.Helper()
	for i, g := range got.V {
		size, args := 1e-30, make([]float32, len(operands))
		for j, x := range operands {
			args[j] = float32(x.V[i])
			size = max(size, math.Abs(x.V[i]))
		}
		want, _ := Evaluate(p, args)
		if off := math.Abs(g - float64(want)); !(off <= 1e-5*max(size, math.Abs(float64(want)))) {
			d.t.Fatalf("element %d of %v is %v, want %v of %v", i, got.Shape, g, want, args)
		}
	}
}

// testConvThen runs programs after convolutions: on the sums, and on operands with strides of their own.
func (s suite) testConvThen(t *testing.T) {
	for name, p := range programs {
		t.Run(name, func(t *testing.T) {
			s.eachConv(t, 10, func(d *device, c Conv) { d.compareConvThen(c, p) })
		})
	}
}

func (d *device) compareConvThen(c Conv, p *kernels.Program) {
	d.t.Helper()
	f := d.drawLayer(c)
	src := d.uploadImage(d.drawNormalArray(c.InputShape()...))
	sums := d.imageResult(c.OutputShape()...)
	d.Conv(sums, src, f.Filter, f.Affine, c.Origin, nil)
	values := []Array{d.readResult("convolution", sums)}
	var in []kernels.Tensor
	for i := 1; i < p.Operands; i++ {
		t, x := d.uploadOperand(d.drawNormalArray(c.OutputShape()...))
		switch d.upTo(3) {
		case 0, 1: // as activations are
			t = d.uploadImage(x)
		case 2: // as biases are
			row := make([]int, len(x.Shape))
			row[len(row)-1] = 1
			t = d.writeElements(d.newView(x.Shape, row), x)
			x = d.readElements(t)
		}
		in, values = append(in, t), append(values, x)
	}
	dst := d.imageResult(c.OutputShape()...)
	d.Conv(dst, src, f.Filter, f.Affine, c.Origin, p, in...)
	d.checkProgram(p, d.readResult("convolution and program", dst), values)
	d.compareConvAlso(c, f, src, p, in, values)
}

// compareConvAlso compares up to three registers that are results, too; one may be more than once.
func (d *device) compareConvAlso(c Conv, f *layer, src kernels.Tensor, p *kernels.Program, in []kernels.Tensor, values []Array) {
	d.t.Helper()
	more := *p
	also := []kernels.Tensor{}
	for i := range 1 + d.upTo(2) {
		register := d.upTo(p.Operands + len(p.Code) - 1)
		if i == 0 && d.upTo(1) == 0 { // that before the result, as slopes are
			register = max(0, p.Operands+len(p.Code)-2)
		}
		more.Also = append(more.Also, register)
		t := d.imageResult(c.OutputShape()...)
		if d.upTo(1) == 0 {
			t = d.newResult(c.OutputShape()...)
		}
		also = append(also, t)
	}
	dst := d.imageResult(c.OutputShape()...)
	d.Conv(dst, src, f.Filter, f.Affine, c.Origin, &more, append(slices.Clone(in), also...)...)
	d.checkProgram(p, d.readResult("convolution and program of several results", dst), values)
	for i, r := range more.Also {
		until := &kernels.Program{Operands: p.Operands, Code: slices.Clone(p.Code[:max(0, r-p.Operands+1)])}
		until.Code = append(until.Code, kernels.Instruction{Op: kernels.Copy, A: r})
		d.checkProgram(until, d.readResult("another result", also[i]), values)
	}
}
