package dnn

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/gradient"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/onnx"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
)

// Options say how a network is run. Zero values mean the defaults.
type Options struct {
	// Height and Width are of the pictures that the network takes, where that can be chosen. By default they are what
	// the file says and, where its inputs may have any, the first of a few sizes that the network can be planned for: then
	// it is planned and measured for that, and takes others too.
	Height, Width int
	// WorkBytes is how much memory a pass may compute in. Default: what it takes for the network's own shapes and one
	// frame's gradient, and where the batch or others are free at least four times what the frame takes, and 16 MiB.
	WorkBytes int64
	// Best adds two outputs to the network's: where along its last axis the first output is greatest, and what it is there.
	Best bool
}

// Network is what a file says of a network, checked, and how it is to be run. But for Plan and Open it is not changed.
type Network struct {
	graph   *graph.Graph
	file    *onnx.Model // nil of one that is no file's
	print   string      // fingerprint
	options Options
	side    int        // of free dimensions that are no batch
	beside  int        // the same of inputs behind the first
	batched bool       // the batch may be any
	whole   gradientOf // by which the cost of gradients is measured
	limits  wire.TensorLimits
	ahead   *ahead // nil: nothing was planned yet, or a model has taken it
}

// ahead is plans for the network's own shapes that were made before there was a model.
type ahead struct {
	device kernels.Networks
	plans  []*compiled
}

// maxPassItems is how many jobs a pass may hold. They run one after another, so that more gain nothing.
const maxPassItems = 8

// maxTensors is how many inputs a network may have, and how many outputs: each is told to the scheduler and held to
// what jobs bring.
const maxTensors = 1024

// sides are the sizes of free dimensions that are tried.
var sides = []int{256, 224, 128, 64, 32, 16, 8, 4, 2, 1}

// New checks a network whose content has this fingerprint. It may be called by any goroutine.
func New(g *graph.Graph, print string, o Options) (*Network, error) {
	n := &Network{graph: g, print: print, options: o}
	if max(len(g.Inputs), len(g.Outputs)) > maxTensors {
		return nil, fmt.Errorf("has %d inputs and %d outputs; at most %d of each are served", len(g.Inputs), len(g.Outputs), maxTensors)
	}
	for _, v := range g.Inputs {
		if v.Rank < 0 || v.Type == 0 {
			return nil, fmt.Errorf("input %q has no type, or no number of dimensions", v.Name)
		}
	}
	one, err := n.settleFreeDims()
	if err != nil {
		return nil, err
	}
	two, err := specialiseGraph(g, n.inputShapes(2))
	if n.batched = err == nil && n.mayBatch(); !n.batched {
		two = one
	}
	n.limits = wire.TensorLimits{Inputs: n.inputSpecs(), Outputs: n.outputSpecs(one.Outputs, two.Outputs), MaxPassItems: maxPassItems}
	n.limits.Elements = int(totalElements(n.inputShapes(1)))
	if n.hasFreeDims() {
		n.limits.Growth = 1
	}
	if n.isDifferentiable(one) {
		n.limits.Backward = 1
	}
	return n, nil
}

// ForGradients has models of the network measured by these gradients, and given memory for them. It is called before Plan and Open.
func (n *Network) ForGradients(request gradient.Request) error {
	special, err := specialiseGraph(n.graph, n.inputShapes(1))
	if err != nil {
		return err
	}
	n.whole, n.limits.Backward = gradientOf{request}, 1
	_, err = n.whole.buildGradient(special)
	return err
}

// Plan makes the plans that Open needs, of which the next one takes them; that is for the same backend. It may be called by
// any goroutine, before it. What cannot be planned is for Open to refuse.
func (n *Network) Plan(b kernels.Backend) {
	device, _ := b.(kernels.Networks)
	n.ahead = &ahead{device: device}
	recipes := []*recipe{{n, device, n.inputShapes(1), nil}}
	if n.limits.Backward > 0 {
		recipes = append(recipes, &recipe{n, device, n.inputShapes(1), &n.whole})
	}
	for _, r := range recipes {
		if c, err := r.makePlan(); err == nil {
			n.ahead.plans = append(n.ahead.plans, c)
		}
	}
}

// takeAhead is what was planned for backends like this.
func (n *Network) takeAhead(device kernels.Networks) (plans []*compiled) {
	if n.ahead != nil && n.ahead.device == device {
		plans = n.ahead.plans
	}
	n.ahead = nil
	return plans
}

// settleFreeDims finds a size of the free dimensions for which the network can be specialised: one for all of them or, where
// there is none, one for those of the first input while those of others, such as the batch of a state, are 1.
func (n *Network) settleFreeDims() (special *graph.Graph, err error) {
	for _, others := range []int{0, 1} {
		for _, n.side = range sides {
			n.beside = cmp.Or(others, n.side)
			var failed error
			if special, failed = specialiseGraph(n.graph, n.inputShapes(1)); failed == nil {
				return special, nil
			}
			err = cmp.Or(err, failed)
			if !n.hasFreeDims() {
				return nil, err
			}
		}
	}
	return nil, err
}

// hasFreeDims says that there are free dimensions which are no batch.
func (n *Network) hasFreeDims() bool {
	return slices.ContainsFunc(n.graph.Inputs, func(v *graph.Value) bool { return len(v.Shape) > 1 && slices.Contains(v.Shape[1:], -1) })
}

// mayBatch says that inputs are of one frame or of any number.
func (n *Network) mayBatch() bool {
	return len(n.graph.Inputs) > 0 && !slices.ContainsFunc(n.graph.Inputs, func(v *graph.Value) bool { return len(v.Shape) == 0 || v.Shape[0] > 1 })
}

// inputShapes are those of inputs of so many frames.
func (n *Network) inputShapes(batch int) map[string][]int {
	shapes := map[string][]int{}
	for at, v := range n.graph.Inputs {
		shape, side := slices.Clone(v.Shape), n.side
		if at > 0 {
			side = n.beside
		}
		n.chooseImageSize(shape)
		for i, d := range shape {
			if i == 0 && d <= 1 || d < 0 && n.isBatch(v, i) {
				shape[i] = batch
			} else if d < 0 {
				shape[i] = side
			}
		}
		shapes[v.Name] = shape
	}
	return shapes
}

// resizedShapes are those of a frame whose free dimensions are so many times as large, about.
func (n *Network) resizedShapes(factor float64) map[string][]int {
	shapes := n.inputShapes(1)
	for _, v := range n.graph.Inputs {
		shape := shapes[v.Name]
		for i, d := range v.Shape {
			if i > 0 && d < 0 && shape[i] > 1 && !n.isBatch(v, i) {
				shape[i] = max(1, int(factor*float64(shape[i])))
			}
		}
	}
	return shapes
}

// totalElements is how many the tensors of these shapes have together.
func totalElements(shapes map[string][]int) (n float64) {
	for _, shape := range shapes {
		n += float64(graph.Elements(shape))
	}
	return n
}

// isBatch says that a free dimension has the name of one that is some input's first.
func (n *Network) isBatch(v *graph.Value, i int) bool {
	return i < len(v.Dims) && v.Dims[i] != "" && slices.ContainsFunc(n.graph.Inputs, func(other *graph.Value) bool {
		return len(other.Dims) > 0 && other.Dims[0] == v.Dims[i]
	})
}

// chooseImageSize sets height and width of the shape of an input of pictures, if they are given.
func (n *Network) chooseImageSize(shape []int) {
	if len(shape) != 4 || n.options.Height == 0 {
		return
	}
	at := 2
	if channels := shape[3]; (channels == 1 || channels == 3 || channels == 4) && shape[1] != 1 && shape[1] != 3 && shape[1] != 4 {
		at = 1
	}
	shape[at], shape[at+1] = n.options.Height, n.options.Width
}

// inputSpecs describe what the network takes.
func (n *Network) inputSpecs() (list []wire.TensorSpec) {
	for _, v := range n.graph.Inputs {
		spec := wire.TensorSpec{Name: v.Name, Type: v.Type, Shape: slices.Clone(v.Shape)}
		if !n.hasFreeDims() {
			n.chooseImageSize(spec.Shape)
		}
		if n.batched {
			spec.Shape[0] = -1
		}
		list = append(list, spec)
	}
	return list
}

// outputSpecs describe what the network gives, by the outputs for one frame and for two.
func (n *Network) outputSpecs(one, two []*graph.Value) (list []wire.TensorSpec) {
	for i, v := range n.graph.Outputs {
		spec := wire.TensorSpec{Name: v.Name, Type: cmp.Or(v.Type, one[i].Type), Shape: slices.Clone(one[i].Shape)}
		for d := range spec.Shape {
			own := d < len(v.Shape) && v.Shape[d] == spec.Shape[d]
			if d >= len(two[i].Shape) || two[i].Shape[d] != spec.Shape[d] || n.hasFreeDims() && !own {
				spec.Shape[d] = -1
			}
		}
		list = append(list, spec)
	}
	return list
}

// enoughMemory is what passes of other shapes may take, where one of the network's own takes so much.
func (n *Network) enoughMemory(own int64) int64 {
	if n.hasFreeDims() || n.batched {
		return max(4*own, 16<<20)
	}
	return own
}

// maxTried bounds the nodes that are gone through in search of an output that has a gradient.
const maxTried = 1 << 20

// isDifferentiable says that some output has a gradient to some input, and notes which.
func (n *Network) isDifferentiable(special *graph.Graph) bool {
	tried := 0
	for _, out := range special.Outputs {
		for _, in := range special.Inputs {
			if tried > maxTried {
				return false
			}
			if !graph.Floating(out.Type) || !graph.Floating(in.Type) {
				continue
			}
			tried += 1 + len(special.Nodes)
			request := gradient.Request{Seeded: []string{out.Name}, Wanted: []string{in.Name}}
			if _, err := gradient.NewGradient(special, request); err == nil {
				n.whole = gradientOf{request}
				return true
			}
		}
	}
	return false
}
