package kerneltest

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

const normEps = 1e-5

// weight is a tensor of a checkpoint and the values that a backend makes of it.
type weight struct {
	tensor kernels.HostTensor
	matrix
}

// weight draws a tensor of the checkpoint type typ.
func (d *device) weight(name string, typ kernels.DType, rows, cols int, deviation float64) weight {
	v := d.normal(rows*cols, deviation)
	switch typ {
	case kernels.F8E4M3:
		return fp8Weight(name, matrix{rows, cols, v})
	case kernels.I8:
		return int8Weight(name, matrix{rows, cols, v}, d.weightOnly)
	}
	raw := encode(typ, v)
	return weight{
		kernels.HostTensor{Name: name, Type: typ, Rows: rows, Cols: cols, Data: raw},
		matrix{rows, cols, rounded(d.ActType(), decode(typ, raw))},
	}
}

// normWeight draws a vector around 1; its values stay float32.
func (d *device) normWeight(n int) (kernels.Vector, []float64) {
	v := d.normal(n, 0.2)
	for i := range v {
		v[i]++
	}
	raw := encode(kernels.BF16, v)
	w, err := d.NewVector(kernels.HostTensor{Name: "norm", Type: kernels.BF16, Rows: 1, Cols: n, Data: raw})
	if err != nil {
		d.t.Fatal(err)
	}
	if w.Len() != n {
		d.t.Fatalf("vector of %d elements has Len %d", n, w.Len())
	}
	return w, decode(kernels.BF16, raw)
}

// linear packs weights; out are the widths of its parts, and every second part has a bias if bias.
func (d *device) linear(typ kernels.DType, in int, bias bool, out ...int) (kernels.Linear, matrix, []float64) {
	return d.packed(d.NewLinear, typ, in, bias, out...)
}

// outputLinear is linear for AddLinear and MLP.
func (d *device) outputLinear(typ kernels.DType, in int, bias bool, out ...int) (kernels.Linear, matrix, []float64) {
	pack := func(parts, biases []kernels.HostTensor) (kernels.Linear, error) {
		return kernels.NewOutputLinear(d.Backend, parts, biases)
	}
	return d.packed(pack, typ, in, bias, out...)
}

func (d *device) packed(pack func(parts, biases []kernels.HostTensor) (kernels.Linear, error), typ kernels.DType, in int, bias bool, out ...int) (kernels.Linear, matrix, []float64) {
	all := matrix{cols: in}
	var parts, biases []kernels.HostTensor
	var biasValues []float64
	biasType := typ
	if typ.Scaled() {
		biasType = kernels.BF16
	}
	for i, n := range out {
		w := d.weight(fmt.Sprintf("part %d", i), typ, n, in, 0.05)
		parts = append(parts, w.tensor)
		all.rows += n
		all.v = append(all.v, w.v...)
		b := kernels.HostTensor{Name: "no bias", Type: biasType}
		values := make([]float64, n)
		if i%2 == 0 {
			raw := encode(biasType, d.normal(n, 0.5))
			b = kernels.HostTensor{Name: "bias", Type: biasType, Rows: 1, Cols: n, Data: raw}
			values = decode(biasType, raw)
		}
		biases = append(biases, b)
		biasValues = append(biasValues, values...)
	}
	if !bias {
		biases, biasValues = nil, nil
	}
	l, err := pack(parts, biases)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(l.Free)
	if l.In() != in || l.Out() != all.rows || l.Bytes() <= 0 {
		d.t.Fatalf("linear of %d x %d says In %d, Out %d, Bytes %d", in, all.rows, l.In(), l.Out(), l.Bytes())
	}
	return l, all, biasValues
}

// testBuffer checks that memory is zeroed and that Write and Read reach any byte.
func (s suite) testBuffer(t *testing.T) {
	d := newDevice(t, s.open)
	b := d.alloc(1000)
	if b.Bytes() < 1000 {
		t.Errorf("Bytes() = %d of an allocation of 1000", b.Bytes())
	}
	want := make([]byte, 1000)
	copy(want[33:], "somewhere in the middle")
	d.Write(b, 33, []byte("somewhere in the middle"))
	got := make([]byte, 1000)
	d.Read(got, b, 0)
	d.sync()
	if !bytes.Equal(got, want) {
		t.Error("memory is not zero but for what was written")
	}
	if _, err := d.Alloc(-1); err == nil {
		t.Error("Alloc(-1) did not fail")
	}
}

func (s suite) testEmbed(t *testing.T) {
	for _, typ := range []kernels.DType{kernels.BF16, kernels.F16, kernels.F32} {
		t.Run(typ.String(), func(t *testing.T) {
			d := newDevice(t, s.open)
			w := d.weight("embedding", typ, 37, 51, 1)
			table, err := d.NewTable(w.tensor)
			if err != nil {
				t.Fatal(err)
			}
			defer table.Free()
			ids := []uint32{36, 0, 5, 5, 17}
			x := d.mat(kernels.F32, len(ids), 51, nil)
			d.Embed(x, table, ids)
			var want []float64
			for _, id := range ids {
				want = append(want, w.row(int(id))...)
			}
			// An embedding is looked up, not multiplied: it may be rounded to the activation type, no worse.
			d.check("rows", Tolerance{Max: max(s.tol.Max, 1e-6), RMS: s.tol.RMS}, d.values(x), want)
			if table.Rows() != 37 || table.Cols() != 51 {
				t.Errorf("table says %d x %d", table.Rows(), table.Cols())
			}
		})
	}
}

// linearCase is a shape of a matrix product.
type linearCase struct {
	rows, in int
	out      []int
	bias     bool
	typ      kernels.DType
}

func (c linearCase) String() string {
	return fmt.Sprintf("%dx%d-%v-bias=%t-%s", c.rows, c.in, c.out, c.bias, c.typ)
}

var linearCases = []linearCase{
	{1, 48, []int{48}, false, kernels.BF16},
	{1, 896, []int{896, 128, 128}, true, kernels.BF16},
	{3, 64, []int{1}, true, kernels.F32},
	{5, 77, []int{53}, false, kernels.F16},
	{16, 96, []int{96, 32, 32}, false, kernels.F32},
	{33, 130, []int{17, 5, 211}, true, kernels.BF16},
	{70, 512, []int{48}, true, kernels.BF16},
	{513, 48, []int{67}, false, kernels.BF16},
	{300, 1100, []int{530}, true, kernels.BF16},
}

func (s suite) testNormLinear(t *testing.T) {
	for _, c := range linearCases {
		t.Run(c.String(), func(t *testing.T) { s.compareNormLinear(newDevice(t, s.open), c) })
	}
}

func (s suite) compareNormLinear(d *device, c linearCase) {
	l, w, bias := d.linear(c.typ, c.in, c.bias, c.out...)
	norm, normValues := d.normWeight(c.in)
	values := rounded(kernels.F32, d.normal(c.rows*c.in, 3))
	x := d.mat(kernels.F32, c.rows, c.in, values)
	dst := d.mat(d.ActType(), c.rows, w.rows, nil)
	d.NormLinear(dst, x, norm, normEps, l)
	want := matrix{c.rows, c.in, values}.normed(normValues, normEps).timesTransposed(w, bias)
	d.check("dst", s.tol, d.values(dst), want.v)
	d.check("x after", Tolerance{}, d.values(x), values)
}

func (s suite) testAddLinear(t *testing.T) {
	for _, c := range linearCases {
		t.Run(c.String(), func(t *testing.T) { s.compareAddLinear(newDevice(t, s.open), c) })
	}
}

func (s suite) compareAddLinear(d *device, c linearCase) {
	l, w, bias := d.outputLinear(c.typ, c.in, c.bias, c.out...)
	values := rounded(d.ActType(), d.normal(c.rows*c.in, 1))
	src := d.mat(d.ActType(), c.rows, c.in, values)
	before := rounded(kernels.F32, d.normal(c.rows*w.rows, 2))
	x := d.mat(kernels.F32, c.rows, w.rows, before)
	d.AddLinear(x, src, l)
	want := matrix{c.rows, c.in, values}.timesTransposed(w, bias)
	d.check("added", s.tol, minus(d.values(x), before), want.v)
}

// mlpCase is a shape of an MLP.
type mlpCase struct {
	rows, hidden, inter int
	typ                 kernels.DType
}

func (s suite) testMLP(t *testing.T) {
	for _, c := range []mlpCase{
		{1, 48, 77, kernels.BF16}, {2, 64, 176, kernels.F16}, {17, 100, 301, kernels.F32},
		{65, 96, 33, kernels.BF16}, {300, 130, 250, kernels.BF16},
	} {
		t.Run(fmt.Sprintf("%dx%dx%d-%s", c.rows, c.hidden, c.inter, c.typ), func(t *testing.T) {
			d := newDevice(t, s.open)
			gate, up := d.weight("gate", c.typ, c.inter, c.hidden, 0.1), d.weight("up", c.typ, c.inter, c.hidden, 0.1)
			gated, err := d.NewGatedLinear(gate.tensor, up.tensor)
			if err != nil {
				t.Fatal(err)
			}
			defer gated.Free()
			down, w, _ := d.outputLinear(c.typ, c.inter, false, c.hidden)
			norm, normValues := d.normWeight(c.hidden)
			before := rounded(kernels.F32, d.normal(c.rows*c.hidden, 2))
			x := d.mat(kernels.F32, c.rows, c.hidden, before)
			d.MLP(x, norm, normEps, gated, down)
			in := matrix{c.rows, c.hidden, before}.normed(normValues, normEps)
			g, u := in.timesTransposed(gate.matrix, nil), in.timesTransposed(up.matrix, nil)
			for i := range g.v {
				g.v[i] = silu(g.v[i]) * u.v[i]
			}
			d.check("added", s.tol, minus(d.values(x), before), g.timesTransposed(w, nil).v)
		})
	}
}

func (s suite) testLogits(t *testing.T) {
	for _, typ := range []kernels.DType{kernels.BF16, kernels.F16, kernels.F32} {
		for _, rows := range []int{1, 3, 40} {
			t.Run(fmt.Sprintf("%s-%d", typ, rows), func(t *testing.T) {
				d := newDevice(t, s.open)
				const vocabulary, hidden = 531, 72
				w := d.weight("head", typ, vocabulary, hidden, 1)
				table, err := d.NewTable(w.tensor)
				if err != nil {
					t.Fatal(err)
				}
				defer table.Free()
				norm, normValues := d.normWeight(hidden)
				values := rounded(kernels.F32, d.normal(rows*hidden, 2))
				x := d.mat(kernels.F32, rows, hidden, values)
				all := d.mat(kernels.F32, rows, vocabulary, nil)
				d.Logits(all, x, norm, normEps, table, nil)
				want := matrix{rows, hidden, values}.normed(normValues, normEps).timesTransposed(w.matrix, nil)
				d.check("all", s.tol, d.values(all), want.v)

				ids := []uint32{530, 2, 2, 0, 77, 300, 301}
				some := d.mat(kernels.F32, rows, len(ids), nil)
				d.Logits(some, x, norm, normEps, table, ids)
				d.check("picked", s.tol, d.values(some), want.columns(ids))
			})
		}
	}
}
