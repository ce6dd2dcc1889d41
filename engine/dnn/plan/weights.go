package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/lower"
	"github.com/prefillonly/prefillonly/kernels"
)

// Weight is something that plans need of constants on the device. It does not depend on the shapes of inputs:
// weights of equal Kind, of constants that are equal in their order, are equal.
type Weight struct {
	Kind      string // how it is made
	Constants []*graph.Value
	Bytes     int64 // that it takes, about
	Filter    bool  // it is a convolution's weights
	make      func(b kernels.Networks, constants []*graph.Tensor) (kernels.Held, error)
}

// Make packs the weight from its constants.
func (w *Weight) Make(b kernels.Networks, constants []*graph.Tensor) (kernels.Held, error) {
	if len(constants) != len(w.Constants) {
		return nil, fmt.Errorf("%d constants for %s, which takes %d", len(constants), w.Kind, len(w.Constants))
	}
	for i, t := range constants {
		if v := w.Constants[i]; t.Type != v.Type || !slices.Equal(t.Shape, v.Shape) {
			return nil, fmt.Errorf("constant %q is %v, not %v%v", v.Name, t, v.Type, v.Shape)
		}
	}
	return w.make(b, constants)
}

// weights are those of a plan, each once.
type weights struct {
	list []Weight
	at   map[string]int
}

// weightIndex is the place of w among the weights.
func (ws *weights) weightIndex(w Weight) int {
	var key strings.Builder
	key.WriteString(w.Kind)
	for _, v := range w.Constants {
		fmt.Fprintf(&key, " %q %v %p", v.Name, v.Shape, v.Const)
	}
	i, ok := ws.at[key.String()]
	if !ok {
		i = len(ws.list)
		ws.list = append(ws.list, w)
		ws.at[key.String()] = i
	}
	return i
}

// rawIndex is a constant as it is, in float32.
func (ws *weights) rawIndex(name string, t *graph.Tensor) int {
	return ws.weightIndex(Weight{Kind: "float32", Constants: []*graph.Value{graph.NewConst(name, t)}, Bytes: 4 * int64(t.Len()), make: makeRaw})
}

func makeRaw(b kernels.Networks, constants []*graph.Tensor) (kernels.Held, error) {
	data := toDevice(constants[0])
	buf, err := b.Alloc(int64(len(data)))
	if err != nil {
		return nil, err
	}
	b.Write(buf, 0, data)
	return buf, b.Sync()
}

// toDevice is a tensor's elements as the device has them, in float32.
func toDevice(t *graph.Tensor) []byte {
	if t.Type == engine.FP32 {
		return t.Data
	}
	return graph.FromFloats(engine.FP32, t.Shape, t.Floats()).Data
}

// fromDevice is a tensor of elements that the device had.
func fromDevice(t engine.DType, shape []int, data []byte) *graph.Tensor {
	floats := &graph.Tensor{Type: engine.FP32, Shape: shape, Data: data}
	if t == engine.FP32 {
		return floats
	}
	return graph.FromFloats(t, shape, floats.Floats())
}

// filterIndex is a convolution's weights alone: what is applied to its sums is apart, so that networks which differ in
// that share these.
func (ws *weights) filterIndex(f *lower.Filter) int {
	p := packing{spec: f.Spec, transposed: f.Transposed}
	bytes := 4 * int64(f.Spec.Out) * int64(f.Spec.Taps())
	return ws.weightIndex(Weight{Kind: p.String(), Constants: []*graph.Value{f.Weight}, Bytes: bytes, Filter: true, make: p.makeFilter})
}

// affine is which weights are a convolution's scale and shift, if it has them.
type affine struct {
	scaled, shifted bool
	scale, shift    int
}

// affineIndices are a convolution's scale and shift: with a scale there is a shift.
func (ws *weights) affineIndices(f *lower.Filter) (a affine) {
	ofOutputs := func(what string, values []float64) int {
		return ws.rawIndex(what, graph.FromFloats(engine.FP32, []int{f.Spec.Out}, values))
	}
	if a.scaled = slices.ContainsFunc(f.Scale, func(x float64) bool { return x != 1 }); a.scaled {
		a.scale = ofOutputs("scale", f.Scale)
	}
	switch {
	case a.scaled || f.Shift != nil:
		a.shifted, a.shift = true, ofOutputs("shift", shiftedBias(f))
	case f.Bias != nil:
		a.shifted, a.shift = true, ws.rawIndex(f.Bias.Name, f.Bias.Const)
	}
	return a
}

// shiftedBias is the bias with scale and shift.
func shiftedBias(f *lower.Filter) []float64 {
	bias := slices.Clone(f.Shift)
	if f.Bias != nil {
		for i, b := range f.Bias.Const.Floats() {
			bias[i] += f.Scale[i] * b
		}
	}
	return bias
}

// packing is how a filter is made of weights.
type packing struct {
	spec       kernels.ConvSpec
	transposed bool
}

func (p packing) String() string {
	s := p.spec
	kind := fmt.Sprintf("filter %d>%d/%d kernel %v strides %v dilations %v", s.In, s.Out, s.Groups, s.Kernel, s.Strides, s.Dilations)
	if p.transposed {
		kind += " transposed"
	}
	return kind
}

func (p packing) makeFilter(b kernels.Networks, constants []*graph.Tensor) (kernels.Held, error) {
	weight := kernels.HostTensor{Name: "weight", Rows: p.spec.Out, Cols: p.spec.Taps()}
	if p.transposed {
		weight.Data = p.untransposedRows(constants[0])
	} else {
		weight.Data = toDevice(constants[0])
	}
	f, err := b.NewFilter(p.spec, weight)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// untransposedRows are the weights of each output.
func (p packing) untransposedRows(t *graph.Tensor) []byte {
	given, taps := t.Floats(), p.spec.Taps()
	rows := make([]float64, len(given))
	for o := range p.spec.Out {
		for i := range taps {
			rows[o*taps+i] = given[p.untransposedTap(o, i)]
		}
	}
	return graph.FromFloats(engine.FP32, []int{len(rows)}, rows).Data
}

// untransposedTap is where tap i of output o is in the weights of the convolution whose gradient this is.
func (p packing) untransposedTap(o, i int) int {
	in, out := p.spec.In/p.spec.Groups, p.spec.Out/p.spec.Groups
	kernel := p.spec.Taps() / in
	group, channel, tap := o/out, i/kernel, i%kernel
	return ((group*in+channel)*out+o%out)*kernel + kernel - 1 - tap
}
