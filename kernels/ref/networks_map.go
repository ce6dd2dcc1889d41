package ref

import (
	"math"

	"github.com/prefillonly/prefillonly/kernels"
)

// elementsPerTask is how many elements one goroutine computes at a time.
const elementsPerTask = 1024

// view is a tensor for walks over its elements, row-major. Dimensions that follow on one another are one.
type view struct {
	data          []float32
	first         int
	shape, stride []int // at least one dimension
}

func viewOf(t kernels.Tensor) view {
	v := view{}
	v.data, v.first = tensorFloats(t)
	for i, d := range t.Shape {
		last := len(v.shape) - 1
		switch {
		case d == 1:
		case last >= 0 && v.stride[last] == d*t.Stride[i]:
			v.shape[last], v.stride[last] = v.shape[last]*d, t.Stride[i]
		default:
			v.shape, v.stride = append(v.shape, d), append(v.stride, t.Stride[i])
		}
	}
	if len(v.shape) == 0 {
		v.shape, v.stride = []int{1}, []int{0}
	}
	return v
}

func viewsOf(tensors []kernels.Tensor) []view {
	views := make([]view, len(tensors))
	for i, t := range tensors {
		views[i] = viewOf(t)
	}
	return views
}

// forEachRun calls do with pieces of n elements from one on that lie a stride apart: the number of the piece's
// first one of the n, its place, and the piece's length.
func (v *view) forEachRun(from, n int, do func(i, at, length int)) {
	last := len(v.shape) - 1
	for done := 0; done < n; {
		at, rest := v.first, from+done
		for d := last; d > 0; d-- {
			at += rest % v.shape[d] * v.stride[d]
			rest /= v.shape[d]
		}
		at += rest * v.stride[0]
		length := min(n-done, v.shape[last]-(from+done)%v.shape[last])
		do(done, at, length)
		done += length
	}
}

// load copies elements from one on.
func (v *view) load(dst []float32, from int) {
	stride := v.stride[len(v.stride)-1]
	v.forEachRun(from, len(dst), func(i, at, length int) {
		if stride == 1 {
			copy(dst[i:i+length], v.data[at:])
			return
		}
		for j := range length {
			dst[i+j] = v.data[at+j*stride]
		}
	})
}

// storeElements copies to elements from one on.
func (v *view) storeElements(src []float32, from int) {
	stride := v.stride[len(v.stride)-1]
	v.forEachRun(from, len(src), func(i, at, length int) {
		for j, x := range src[i : i+length] {
			v.data[at+j*stride] = x
		}
	})
}

// Map computes blocks of elements, one instruction after another.
func (b *Backend) Map(dst kernels.Tensor, p *kernels.Program, operands ...kernels.Tensor) {
	if !b.recordError(kernels.CheckMap(dst, p, operands)) {
		mapTo([]kernels.Tensor{dst}, p, operands)
	}
}

// mapTo is Map of operands that fit, into the result and those of p.Also.
func mapTo(results []kernels.Tensor, p *kernels.Program, operands []kernels.Tensor) {
	out, in := viewsOf(results), viewsOf(operands)
	written := append([]int{p.Operands + len(p.Code) - 1}, p.Also...)
	all := results[0].Elements()
	runParallel((all+elementsPerTask-1)/elementsPerTask, func(task int) {
		from := task * elementsPerTask
		n := min(elementsPerTask, all-from)
		registers.withZeros(n*(p.Operands+len(p.Code)), func(values []float32) {
			register := func(i int) []float32 { return values[i*n : (i+1)*n] }
			for i := range in {
				in[i].load(register(i), from)
			}
			for i, c := range p.Code {
				runInstruction(register(p.Operands+i), c, register)
			}
			for i, r := range written {
				out[i].storeElements(register(r), from)
			}
		})
	})
}

// runInstruction is one instruction.
func runInstruction(dst []float32, c kernels.Instruction, register func(i int) []float32) {
	switch c.Op.Args() {
	case 0:
		for i := range dst {
			dst[i] = c.X
		}
	case 1:
		mapOne(dst, register(c.A), c.Op)
	case 2:
		mapTwo(dst, register(c.A), register(c.B), c.Op)
	case 3:
		a, b, c := register(c.A), register(c.B), register(c.C)
		for i := range dst {
			dst[i] = c[i]
			if a[i] != 0 {
				dst[i] = b[i]
			}
		}
	}
}

// unaries are the operations of one operand but Copy and Neg, which need no rounding.
var unaries = map[kernels.ElementOp]func(float64) float64{
	kernels.Abs: math.Abs, kernels.Sqrt: math.Sqrt, kernels.Exp: math.Exp, kernels.Log: math.Log,
	kernels.Sin: math.Sin, kernels.Cos: math.Cos, kernels.Tanh: math.Tanh, kernels.Erf: math.Erf,
	kernels.Sigmoid: func(x float64) float64 { return 1 / (1 + math.Exp(-x)) },
	kernels.Floor:   math.Floor, kernels.Ceil: math.Ceil, kernels.Round: math.RoundToEven,
	kernels.Half:  func(x float64) float64 { return roundToBits(x, 10, -14, 15) },
	kernels.Brain: func(x float64) float64 { return roundToBits(x, 7, -126, 127) },
}

// roundToBits rounds x to so many bits behind the first, of numbers from 2^least to below 2^(most+1).
func roundToBits(x float64, bits, least, most int) float64 {
	if x == 0 || math.IsNaN(x) || math.IsInf(x, 0) {
		return x
	}
	step := math.Ldexp(1, max(math.Ilogb(x), least)-bits)
	x = math.Copysign(math.RoundToEven(x/step)*step, x)
	if math.Abs(x) >= math.Ldexp(1, most+1) {
		return math.Inf(int(math.Copysign(1, x)))
	}
	return x
}

func mapOne(dst, a []float32, op kernels.ElementOp) {
	switch op {
	case kernels.Copy:
		copy(dst, a)
	case kernels.Neg:
		for i, x := range a {
			dst[i] = -x
		}
	default:
		f := unaries[op]
		for i, x := range a {
			dst[i] = float32(f(float64(x)))
		}
	}
}

func boolToFloat(is bool) float32 {
	if is {
		return 1
	}
	return 0
}

// binaries are the operations of two operands.
var binaries = map[kernels.ElementOp]func(x, y float32) float32{
	kernels.Add:       func(x, y float32) float32 { return x + y },
	kernels.Sub:       func(x, y float32) float32 { return x - y },
	kernels.Mul:       func(x, y float32) float32 { return x * y },
	kernels.Div:       func(x, y float32) float32 { return x / y },
	kernels.Min:       func(x, y float32) float32 { return min(x, y) },
	kernels.Max:       func(x, y float32) float32 { return max(x, y) },
	kernels.Pow:       func(x, y float32) float32 { return float32(math.Pow(float64(x), float64(y))) },
	kernels.Less:      func(x, y float32) float32 { return boolToFloat(x < y) },
	kernels.LessEqual: func(x, y float32) float32 { return boolToFloat(x <= y) },
	kernels.Equal:     func(x, y float32) float32 { return boolToFloat(x == y) },
}

func mapTwo(dst, a, b []float32, op kernels.ElementOp) {
	f := binaries[op]
	for i, x := range a {
		dst[i] = f(x, b[i])
	}
}
