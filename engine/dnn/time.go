package dnn

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/plan"
)

// Trial is a kind of pass of noise, whose time tells what jobs cost.
type Trial struct {
	Frames   int
	Size     float64 // the elements of a frame's inputs, as a multiple of those of the network's own
	Backward bool    // with the gradient of an output to an input
	shapes   map[string][]int
}

// Trials are of the network's own frame, of several if the batch may be any, of a larger and of a smaller frame if the
// network may take them, and of the gradient if it has one.
func (m *Model) Trials() []Trial {
	n := m.network
	list := []Trial{{Frames: 1, Size: 1, shapes: n.inputShapes(1)}}
	if n.batched {
		list = append(list, Trial{Frames: 4, Size: 1, shapes: n.inputShapes(4)})
	}
	if n.hasFreeDims() {
		for _, factor := range []float64{2, 0.5} {
			shapes := n.resizedShapes(factor)
			list = append(list, Trial{Frames: 1, Size: totalElements(shapes) / float64(n.limits.Elements), shapes: shapes})
		}
	}
	if n.limits.Backward > 0 {
		list = append(list, Trial{Frames: 1, Size: 1, Backward: true, shapes: n.inputShapes(1)})
	}
	return list
}

// Timed is passes of a trial, one after the other. It computes where nested passes do, of which none is half computed
// when it goes on; one that has been since costs it the pass that it was in.
type Timed struct {
	Took, Step time.Duration // of the pass that it is in or has ended last, and of the longest step of that
	Restarts   int           // passes that were lost

	m      *Model
	work   *Workspace
	plan   *compiled
	run    *plan.Run
	inputs [][]byte
	inside bool // of a pass
}

// Time plans a trial; it may be called by any goroutine. An error of engine.CodeTooLong says that it needs too much memory, one of engine.CodeBadTokens
// that the network takes no such inputs. The caller calls Close in the end, as long as the model's weights and working
// memory are those of now.
func (m *Model) Time(t Trial) (*Timed, error) {
	w := &work{recipe: m.plans.newRecipe(t.shapes, nil)}
	if t.Backward {
		w.recipe.want = &m.network.whole
	}
	c, refused := m.findPlan(w)
	if refused != nil {
		return nil, refused
	}
	p := &Timed{m: m, plan: c}
	for _, in := range c.Inputs {
		p.inputs = append(p.inputs, randomElements(in))
	}
	return p, nil
}

// Advance takes a step of a pass, and reports whether it was the last. The weights are all resident.
func (p *Timed) Advance() (done bool, err error) {
	if p.work == nil {
		p.work = p.m.work
	}
	switch held := p.work.running[nestedArea]; {
	case held == p:
	case held != nil:
		return false, engine.Errorf(engine.CodeInternal, "a pass is to be timed while a nested one is half computed")
	case p.inside:
		p.inside = false
		p.Restarts++
	}
	if p.run == nil {
		if p.run, err = p.m.bind(p.plan, p.work, nestedArea); err != nil {
			return false, err
		}
	}
	start := time.Now()
	if !p.inside {
		p.work.running[nestedArea] = p
		p.Took, p.Step, p.inside = 0, 0, true
		err = p.begin()
	}
	before := time.Now()
	if err == nil {
		done, err = p.run.Step()
	}
	p.Step = max(p.Step, time.Since(before))
	if done && err == nil {
		err = p.read()
		p.leavePass()
	}
	p.Took += time.Since(start)
	return done, err
}

// begin begins a pass.
func (p *Timed) begin() error {
	p.run.Start()
	for i, in := range p.plan.Inputs {
		if err := p.run.SetInput(in.Name, p.inputs[i]); err != nil {
			return err
		}
	}
	return nil
}

// read reads what a pass has computed, as jobs do.
func (p *Timed) read() error {
	for i, v := range p.plan.Outputs {
		data := make([]byte, graph.Elements(p.run.OutputShape(i))*v.Type.Size())
		if err := p.run.ReadOutput(i, data); err != nil {
			return err
		}
	}
	return nil
}

// Whole is how long the pass takes in all, by the share of it that is done.
func (p *Timed) Whole() time.Duration {
	if share := p.run.Share(); p.inside && share > 0 {
		return time.Duration(float64(p.Took) / share)
	}
	return p.Took
}

// leavePass ends the pass that it is in.
func (p *Timed) leavePass() {
	p.inside = false
	if p.work != nil && p.work.running[nestedArea] == p {
		p.work.running[nestedArea] = nil
	}
}

// Close ends the timing.
func (p *Timed) Close() {
	p.leavePass()
	p.m.plans.release(p.plan)
	p.m.plans.trim()
}

// randomElements is elements from 0 to 1 of floats, and 0 or 1 of others, which may be indices or lengths.
func randomElements(v *graph.Value) []byte {
	h := fnv.New64()
	h.Write([]byte(v.Name))
	random := rand.New(rand.NewPCG(h.Sum64(), 1))
	values := make([]float64, graph.Elements(v.Shape))
	for i := range values {
		if values[i] = random.Float64(); !graph.Floating(v.Type) {
			values[i] = math.Round(values[i])
		}
	}
	return graph.FromFloats(v.Type, v.Shape, values).Data
}
