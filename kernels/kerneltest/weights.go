package kerneltest

import (
	"fmt"

	"github.com/prefillonly/prefillonly/kernels"
)

// Weight draws a tensor of the checkpoint type typ.
func (d *fixture) Weight(name string, typ kernels.DType, rows, cols int, deviation float64) Weight {
	drawn := NewMatrix(rows, cols, d.Normal(rows*cols, deviation))
	switch typ {
	case kernels.F8E4M3:
		return FP8Weight(name, drawn)
	case kernels.I8:
		return Int8Weight(name, drawn, d.WeightOnly)
	}
	return PlainWeight(name, drawn, typ, d.ActType())
}

// NormWeight draws a vector around 1; its values stay float32.
func (d *fixture) NormWeight(n int) (kernels.Vector, []float64) {
	v := d.Normal(n, 0.2)
	for i := range v {
		v[i]++
	}
	raw := Encode(kernels.BF16, v)
	w, err := d.NewVector(kernels.HostTensor{Name: "norm", Type: kernels.BF16, Rows: 1, Cols: n, Data: raw})
	if err != nil {
		d.T.Fatal(err)
	}
	if w.Len() != n {
		d.T.Fatalf("vector of %d elements has Len %d", n, w.Len())
	}
	return w, Decode(kernels.BF16, raw)
}

// Table draws a matrix that rows are looked up in or logits are products with.
func (d *fixture) Table(typ kernels.DType, rows, cols int) (kernels.Table, Matrix) {
	w := d.Weight("table", typ, rows, cols, 1)
	t, err := d.NewTable(w.Tensor)
	if err != nil {
		d.T.Fatal(err)
	}
	d.T.Cleanup(t.Free)
	return t, w.Matrix
}

// GatedLinear draws the first matrices of an MLP.
func (d *fixture) GatedLinear(typ kernels.DType, inter, hidden int, deviation float64) (l kernels.Linear, gate, up Matrix) {
	g, u := d.Weight("gate", typ, inter, hidden, deviation), d.Weight("up", typ, inter, hidden, deviation)
	l, err := d.NewGatedLinear(g.Tensor, u.Tensor)
	if err != nil {
		d.T.Fatal(err)
	}
	d.T.Cleanup(l.Free)
	return l, g.Matrix, u.Matrix
}

// Linear packs weights; out are the widths of its parts, and every second part has a bias if bias.
func (d *fixture) Linear(typ kernels.DType, in int, bias bool, out ...int) (kernels.Linear, Matrix, []float64) {
	return d.packed(d.NewLinear, typ, in, bias, out...)
}

// OutputLinear is linear for AddLinear and MLP.
func (d *fixture) OutputLinear(typ kernels.DType, in int, bias bool, out ...int) (kernels.Linear, Matrix, []float64) {
	pack := func(parts, biases []kernels.HostTensor) (kernels.Linear, error) {
		return kernels.NewOutputLinear(d.Backend, parts, biases)
	}
	return d.packed(pack, typ, in, bias, out...)
}

func (d *fixture) packed(pack func(parts, biases []kernels.HostTensor) (kernels.Linear, error), typ kernels.DType, in int, bias bool, out ...int) (kernels.Linear, Matrix, []float64) {
	all := Matrix{Cols: in}
	var parts, biases []kernels.HostTensor
	var biasValues []float64
	biasType := typ
	if typ.Scaled() {
		biasType = kernels.BF16
	}
	for i, n := range out {
		w := d.Weight(fmt.Sprintf("part %d", i), typ, n, in, 0.05)
		parts = append(parts, w.Tensor)
		all.Rows += n
		all.V = append(all.V, w.V...)
		b := kernels.HostTensor{Name: "no bias", Type: biasType}
		values := make([]float64, n)
		if i%2 == 0 {
			raw := Encode(biasType, d.Normal(n, 0.5))
			b = kernels.HostTensor{Name: "bias", Type: biasType, Rows: 1, Cols: n, Data: raw}
			values = Decode(biasType, raw)
		}
		biases = append(biases, b)
		biasValues = append(biasValues, values...)
	}
	if !bias {
		biases, biasValues = nil, nil
	}
	l, err := pack(parts, biases)
	if err != nil {
		d.T.Fatal(err)
	}
	d.T.Cleanup(l.Free)
	if l.In() != in || l.Out() != all.Rows || l.Bytes() <= 0 {
		d.T.Fatalf("linear of %d x %d says In %d, Out %d, Bytes %d", in, all.Rows, l.In(), l.Out(), l.Bytes())
	}
	return l, all, biasValues
}
