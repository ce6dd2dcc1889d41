package combine

import (
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/elementwise"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/op"
)

// Recurrences are operations that carry a state along a sequence.
var Recurrences = map[string]op.Definition{
	"LSTM": op.Define(recurrentOp(kind{4, []string{"Sigmoid", "Tanh", "Tanh"}, (*recurrence).lstm}), op.Floats, 3, 8, 3),
	"GRU":  op.Define(recurrentOp(kind{3, []string{"Sigmoid", "Tanh"}, (*recurrence).gru}), op.Floats, 3, 6, 2),
	"RNN":  op.Define(recurrentOp(kind{1, []string{"Tanh"}, (*recurrence).rnn}), op.Floats, 3, 6, 2),
}

// kind is a recurrent cell: how many gates it has, its activations if none are given, and a step of it, which
// changes the states h and s, given the input's part of the gates.
type kind struct {
	gates       int
	activations []string
	step        func(r *recurrence, w *gateWeights, x, h, s []float64)
}

// recurrence is what holds for all directions.
type recurrence struct {
	kind
	hidden, input int
	clip          float64 // of the arguments of activations
	inputForget   bool    // the forget gate is 1 less the input gate
	linearFirst   bool    // of a GRU: its reset gate applies after the hidden weights
}

// gateWeights are those of one direction.
type gateWeights struct {
	w, r         []float64 // [gates*hidden, input] and [gates*hidden, hidden]
	biasW, biasR []float64 // [gates*hidden]; zeros if they are not given
	peephole     []float64 // [3*hidden] of an LSTM; zeros if they are not given
	f            []func(float64) float64
}

func recurrentOp(k kind) func(*op.Call) {
	return func(c *op.Call) {
		c.Same(1, 2, 3, 5, 6, 7)
		reverse, both := false, false
		switch c.Word("direction", "forward", "reverse", "bidirectional") {
		case "reverse":
			reverse = true
		case "bidirectional":
			both = true
		}
		directions := 1
		if both {
			directions = 2
		}
		batchFirst := c.Flag("layout", false)
		r, x := newRecurrence(c, k, directions)
		if batchFirst {
			x = []int{x[1], x[0], x[2]}
		}
		for i, want := range [][]int{3: {directions, 2 * k.gates * r.hidden}, 4: {x[1]}, 7: {directions, 3 * r.hidden}} {
			if c.Has(i) && want != nil {
				c.Expect(i, want...)
			}
		}
		state := []int{directions, x[1], r.hidden}
		if batchFirst {
			state = []int{x[1], directions, r.hidden}
		}
		for i := 5; i < 7; i++ {
			if c.Has(i) {
				c.Expect(i, state...)
			}
		}
		for i := range c.Out {
			c.Typed(i, c.In[0].Type)
			c.Shaped(i, state...)
		}
		if batchFirst {
			c.Shaped(0, x[1], x[0], directions, r.hidden)
		} else {
			c.Shaped(0, x[0], directions, x[1], r.hidden)
		}
		functions := directionActivations(c, k, directions)
		c.Run = func(in []*graph.Tensor) []*graph.Tensor {
			in = slices.Concat(in, make([]*graph.Tensor, 8-len(in)))
			if batchFirst {
				for i, perm := range [][]int{0: {1, 0, 2}, 5: {1, 0, 2}, 6: {1, 0, 2}} {
					if perm != nil && in[i] != nil {
						in[i] = op.Permuted(in[i], perm)
					}
				}
			}
			results := r.run(c, in, x, functions, reverse)
			if batchFirst {
				for i, perm := range [][]int{{2, 0, 1, 3}, {1, 0, 2}, {1, 0, 2}} {
					results[i] = op.Permuted(results[i], perm)
				}
			}
			return results[:len(c.Out)]
		}
	}
}

// newRecurrence reads attributes and the shapes of inputs, of which x is the first.
func newRecurrence(c *op.Call, k kind, directions int) (r *recurrence, x []int) {
	x, hidden := c.Ranked(0, 3, 3), c.Ranked(2, 3, 3)[2]
	if given := c.Int("hidden_size", hidden); hidden < 0 {
		hidden = given
	} else if given != hidden {
		c.Fail("invalid attribute hidden_size %d: weights have %d", given, hidden)
	}
	if hidden < 0 {
		panic(op.Unknown{})
	}
	r = &recurrence{kind: k, hidden: hidden, input: x[2], clip: c.Float("clip", math.Inf(1))}
	r.inputForget, r.linearFirst = c.Flag("input_forget", false), c.Flag("linear_before_reset", false)
	if hidden > 1<<20 || !(r.clip >= 0) {
		c.Fail("invalid hidden_size %d or clip %g: want at most 1048576, and 0 or more", hidden, r.clip)
	}
	c.Expect(1, directions, k.gates*hidden, x[2])
	c.Expect(2, directions, k.gates*hidden, hidden)
	return r, x
}

// directionActivations are those of each direction, one after another.
func directionActivations(c *op.Call, k kind, directions int) (out []func(float64) float64) {
	names, ok := op.Attribute[[]string](c, "activations")
	if !ok {
		names = slices.Repeat(k.activations, directions)
	}
	if len(names) != len(k.activations)*directions {
		c.Fail("invalid attribute activations %v: want %d", names, len(k.activations)*directions)
	}
	alphas, _ := op.Attribute[[]float64](c, "activation_alpha")
	betas, _ := op.Attribute[[]float64](c, "activation_beta")
	for _, name := range names {
		f, ok := elementwise.Curves[name]
		if !ok || slices.Contains([]string{"Celu", "Selu", "Swish"}, name) {
			c.Fail("invalid attribute activations %v: %q is not supported", names, name)
		}
		alpha, beta := f.Alpha, f.Beta
		if f.Parameters > 0 && len(alphas) > 0 {
			alpha, alphas = alphas[0], alphas[1:]
		}
		if f.Parameters > 1 && len(betas) > 0 {
			beta, betas = betas[0], betas[1:]
		}
		if math.IsNaN(alpha) || math.IsNaN(beta) {
			c.Fail("missing activation_alpha or activation_beta of activation %s", name)
		}
		out = append(out, func(x float64) float64 { return f.F(x, alpha, beta) })
	}
	return out
}

// run computes all directions. The inputs are sequences first, and so are the results.
func (r *recurrence) run(c *op.Call, in []*graph.Tensor, x []int, functions []func(float64) float64, reverse bool) []*graph.Tensor {
	steps, batch, directions := x[0], x[1], in[1].Shape[0]
	y := make([]float64, steps*directions*batch*r.hidden)
	h, s := make([]float64, directions*batch*r.hidden), make([]float64, directions*batch*r.hidden)
	if in[5] != nil {
		h = in[5].Floats()
	}
	if in[6] != nil {
		s = in[6].Floats()
	}
	lengths := op.Filled(batch, int64(steps))
	if in[4] != nil {
		lengths = in[4].Ints()
	}
	sequences := in[0].Floats()
	for d := range directions {
		w := r.readWeights(in, d)
		w.f = functions[d*len(r.activations):]
		for b, n := range lengths {
			if n < 0 || n > int64(steps) {
				c.Fail("invalid length of sequence %d: got %d, want at most %d", b, n, steps)
			}
			at := (d*batch + b) * r.hidden
			for t := range int(n) {
				if reverse || d == 1 {
					t = int(n) - 1 - t
				}
				r.step(r, w, sequences[(t*batch+b)*r.input:][:r.input], h[at:at+r.hidden], s[at:at+r.hidden])
				copy(y[((t*directions+d)*batch+b)*r.hidden:], h[at:at+r.hidden])
			}
		}
	}
	state, t := []int{directions, batch, r.hidden}, in[0].Type
	return []*graph.Tensor{
		graph.FromFloats(t, []int{steps, directions, batch, r.hidden}, y), graph.FromFloats(t, state, h), graph.FromFloats(t, state, s),
	}
}

func (r *recurrence) readWeights(in []*graph.Tensor, direction int) *gateWeights {
	n := r.gates * r.hidden
	part := func(t *graph.Tensor, size int) []float64 {
		if t == nil {
			return make([]float64, size)
		}
		one := &graph.Tensor{Type: t.Type, Shape: []int{size}, Data: t.Data[direction*size*t.Type.Size():][:size*t.Type.Size()]}
		return one.Floats()
	}
	bias := part(in[3], 2*n)
	return &gateWeights{w: part(in[1], n*r.input), r: part(in[2], n*r.hidden), biasW: bias[:n], biasR: bias[n:], peephole: part(in[7], 3*r.hidden)}
}

func dot(a, b []float64) (total float64) {
	for i, v := range a {
		total += v * b[i]
	}
	return total
}

// gateInput is what gate g of unit j gets of the input, and of the state h.
func (r *recurrence) gateInput(w *gateWeights, g, j int, x, h []float64) (ofX, ofH float64) {
	row := g*r.hidden + j
	return dot(x, w.w[row*r.input:]) + w.biasW[row], dot(h, w.r[row*r.hidden:]) + w.biasR[row]
}

func (r *recurrence) activateClipped(f func(float64) float64, x float64) float64 {
	return f(op.Clamp(x, -r.clip, r.clip))
}

// lstm has the gates input, output, forget and cell.
func (r *recurrence) lstm(w *gateWeights, x, h, s []float64) {
	next := make([]float64, r.hidden)
	for j := range next {
		var sums [4]float64
		for g := range sums {
			a, b := r.gateInput(w, g, j, x, h)
			sums[g] = a + b
		}
		i := r.activateClipped(w.f[0], sums[0]+w.peephole[j]*s[j])
		f := r.activateClipped(w.f[0], sums[2]+w.peephole[2*r.hidden+j]*s[j])
		if r.inputForget {
			f = 1 - i
		}
		s[j] = f*s[j] + i*r.activateClipped(w.f[1], sums[3])
		o := r.activateClipped(w.f[0], sums[1]+w.peephole[r.hidden+j]*s[j])
		next[j] = o * w.f[2](s[j])
	}
	copy(h, next)
}

// gru has the gates update, reset and hidden.
func (r *recurrence) gru(w *gateWeights, x, h, _ []float64) {
	update, reset, masked := make([]float64, r.hidden), make([]float64, r.hidden), make([]float64, r.hidden)
	for j := range update {
		a, b := r.gateInput(w, 0, j, x, h)
		update[j] = r.activateClipped(w.f[0], a+b)
		a, b = r.gateInput(w, 1, j, x, h)
		reset[j] = r.activateClipped(w.f[0], a+b)
		masked[j] = reset[j] * h[j]
	}
	next := make([]float64, r.hidden)
	for j := range next {
		a, b := r.gateInput(w, 2, j, x, masked)
		if r.linearFirst {
			a, b = r.gateInput(w, 2, j, x, h)
			b *= reset[j]
		}
		next[j] = (1-update[j])*r.activateClipped(w.f[1], a+b) + update[j]*h[j]
	}
	copy(h, next)
}

func (r *recurrence) rnn(w *gateWeights, x, h, _ []float64) {
	next := make([]float64, r.hidden)
	for j := range next {
		a, b := r.gateInput(w, 0, j, x, h)
		next[j] = r.activateClipped(w.f[0], a+b)
	}
	copy(h, next)
}
