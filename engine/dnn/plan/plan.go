// Package plan makes of a specialised graph the steps of a pass on a device: where its tensors lie, and what is
// computed when. What a device cannot compute runs on the host.
package plan

import (
	"time"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/lower"
	"github.com/prefillonly/prefillonly/kernels"
)

// Options say what a plan is for.
type Options struct {
	Device kernels.Networks // nil: the host computes all
	Step   time.Duration    // that a step takes at the most, about; 0: 5 ms
	Rates  Rates            // of the device; 0: those of two CPU cores
}

// Rates are what a device does in a second, roughly: they divide a pass into steps, and say how much of it is done.
type Rates struct {
	FLOPs, Bytes float64
	Call         float64 // seconds that a call takes beside its work
}

// Plan is how to compute a graph. It is not changed by what runs.
type Plan struct {
	Weights    []Weight
	ArenaBytes int64   // of the buffer that a Run needs
	Seconds    float64 // that a pass takes, estimated by the rates

	Inputs, Outputs []*graph.Value // of the graph

	options         Options
	net             *lower.Net
	inputs, outputs []view    // of the net; at nil: on the host, or constant
	imports         [][]*call // of each input, the calls that lay it out, where no others read it
	steps           [][]*call
	drops           map[*call][]*lower.Value // tensors on the host that are not needed after a call
}

// Build plans a graph: specialised, so that shapes that can be known are.
func Build(g *graph.Graph, o Options) (*Plan, error) {
	if o.Step == 0 {
		o.Step = 5 * time.Millisecond
	}
	if o.Rates == (Rates{}) {
		o.Rates = Rates{FLOPs: 60e9, Bytes: 10e9, Call: 2e-6}
	}
	p := &Plan{Inputs: g.Inputs, Outputs: g.Outputs, options: o, net: lower.Graph(g, o.Device)}
	if err := p.net.Check(); err != nil {
		return nil, err
	}
	e := &emitter{layout: newLayout(p.net), weights: weights{at: map[string]int{}}}
	p.inputs = e.placeInputs()
	for _, op := range p.net.Ops {
		e.emitOp(op)
	}
	p.outputs = e.outputViews()
	p.Weights = e.list
	e.calls, p.imports = orderImports(e.calls, p.inputs, p.outputs)
	setLifetimes(e.calls, p.inputs, p.outputs)
	extendLifetimes(p.imports, p.inputs)

	inPlace(e.calls)
	p.ArenaBytes = packStorages(arenaStorages(e.calls, p.inputs, p.outputs))
	p.planDrops(e.calls)
	p.divideSteps(e.calls)
	return p, nil
}

// divideSteps makes steps of calls: long ones are split, short ones put together.
func (p *Plan) divideSteps(calls []*call) {
	limit := p.options.Step.Seconds()
	var step []*call
	var seconds float64
	for _, c := range calls {
		c.estimateTime(p.options.Rates)
		for _, part := range c.splitCall(limit) {
			if len(step) > 0 && seconds+part.seconds > limit {
				p.steps, step, seconds = append(p.steps, step), nil, 0
			}
			step = append(step, part)
			seconds += part.seconds
			p.Seconds += part.seconds
		}
	}
	if len(step) > 0 {
		p.steps = append(p.steps, step)
	}
}

// planDrops notes after which call each tensor on the host is not needed any more.
func (p *Plan) planDrops(calls []*call) {
	last := map[*lower.Value]*call{}
	for _, c := range calls {
		if h, ok := c.kind.(*hosted); ok {
			for _, v := range append(h.op.In, h.op.Out...) {
				if v != nil && v.Host && !v.Kept {
					last[v] = c
				}
			}
		}
	}
	p.drops = map[*call][]*lower.Value{}
	for v, c := range last {
		p.drops[c] = append(p.drops[c], v)
	}
}
