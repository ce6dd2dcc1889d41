package networktest

import (
	"math"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// specials are numbers at the edges of float32 and of functions.
var specials = func() []float32 {
	tiny, largest := math.Float32frombits(1), float32(math.MaxFloat32)
	v := []float32{0, tiny, 0x1p-140, 0x1p-126, 0x1p-30, 0x1p-13, 0.1, 0.25, 0.49999997, 0.5, 0.50000006, 0.75, 0.99999994, 1, 1.0000001, 1.5, 2, 2.5, 3,
		3.1415927, 3.5, 4, 7.9, 9.1, 17, 40, 80, 87.3, 88.72283, 88.72284, 89, 103.9, 104, 1000, 8388607.5, 8388608, 16777216, 1e10, 1e20, 0x1p100, largest, float32(math.Inf(1))}
	for _, x := range v[:len(v):len(v)] {
		v = append(v, -x)
	}
	return append(v, float32(math.NaN()))
}()

// testElements computes each operation over special values, and over many in the range in which it is neither
// 0 nor constant.
func (s suite) testElements(t *testing.T) {
	for op := kernels.Copy; int(op) < kernels.ElementOps; op++ {
		t.Run(op.String(), func(t *testing.T) {
			d := newDevice(t, s.open)
			operands := d.specialTuples(op)
			for range 3 {
				for i := range operands {
					operands[i] = append(operands[i], d.drawSpreadValues(30000)...)
				}
			}
			d.compareElements(op, operands)
		})
	}
}

// specialTuples are all tuples of special values.
func (d *device) specialTuples(op kernels.ElementOp) [][]float32 {
	operands := make([][]float32, op.Args())
	n := len(specials)
	total := n
	if op.Args() > 1 {
		total *= n
	}
	for i := range total {
		for j, v := range []int{i % n, i / n, i * 7 % n}[:op.Args()] {
			operands[j] = append(operands[j], specials[v])
		}
	}
	return operands
}

// drawSpreadValues draws numbers of all sizes, most of them near 1.
func (d *device) drawSpreadValues(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		switch d.upTo(3) {
		case 0:
			v[i] = float32(d.random.NormFloat64())
		case 1:
			v[i] = float32(d.random.NormFloat64() * 30)
		case 2:
			v[i] = float32(d.upTo(40) - 20)
		case 3:
			v[i] = float32(math.Ldexp(d.random.NormFloat64(), d.upTo(40)-30))
		}
	}
	return v
}

func (d *device) compareElements(op kernels.ElementOp, operands [][]float32) {
	d.t.Helper()
	n := len(operands[0])
	p := &kernels.Program{Operands: len(operands), Code: []kernels.Instruction{{Op: op, A: 0, B: min(1, len(operands)-1), C: len(operands) - 1}}}
	var in []kernels.Tensor
	for _, v := range operands {
		a := NewArray(n)
		for i, x := range v {
			a.V[i] = float64(x)
		}
		in = append(in, d.writeElements(d.newView(a.Shape, []int{1}), a))
	}
	dst := d.newView([]int{n}, []int{1})
	d.Map(dst, p, in...)
	got := d.readResult(op.String(), dst)
	failures := 0
	for i := range n {
		args := [3]float32{}
		for j := range operands {
			args[j] = operands[j][i]
		}
		if ok, want := Near(op, float32(got.V[i]), args[0], args[1], args[2]); !ok {
			d.t.Errorf("%v of %v is %v, want %v", op, args[:len(operands)], float32(got.V[i]), want)
			if failures++; failures > 9 {
				return
			}
		}
	}
}
