package dnn

import (
	"fmt"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/gradient"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// maxTensor is how many bytes an input may have.
const maxTensor = 1 << 30

// work is a job's tensors, checked.
type work struct {
	recipe *recipe      // of the plan that computes it
	inputs []engine.Ref // then seeds, which are inputs of the plan under names of its own
	seeds  []engine.Ref // under the names of outputs
	wanted []int        // outputs of the plan, in the order in which they are asked for
	names  []string     // of these, to who asked
}

// gradientOf is which gradient a plan computes.
type gradientOf struct{ gradient.Request }

func (g gradientOf) buildGradient(special *graph.Graph) (*graph.Graph, error) {
	return gradient.NewGradient(special, g.Request)
}

// checkItem checks an item, but for what depends on the plan that computes it.
func (m *Model) checkItem(item wire.ItemWork) (w work, refused *engine.Error) {
	t, ok := item.(*wire.TensorItem)
	if !ok {
		return w, engine.Errorf(engine.CodeBadTokens, "the model takes tensors, and the job brings %T", item)
	}
	limits := &m.network.limits
	if err := checkTensors("input", t.Inputs, limits.Inputs, true); err != nil {
		return w, err
	}
	w.inputs = t.Inputs
	shapes := map[string][]int{}
	for _, r := range t.Inputs {
		shapes[r.Name] = r.Shape
	}
	if t.Grad != nil {
		return m.takeGradient(t, w, shapes)
	}
	w.recipe = m.plans.newRecipe(shapes, nil)
	w.wanted, w.names, refused = wantedOutputs(t.Outputs, limits.Outputs)
	return w, refused
}

// takeGradient goes on with an item that asks for gradients.
func (m *Model) takeGradient(t *wire.TensorItem, w work, shapes map[string][]int) (work, *engine.Error) {
	limits := &m.network.limits
	if limits.Backward == 0 {
		return w, engine.Errorf(engine.CodeBadTokens, "the model gives no gradients")
	}
	if len(t.Grad.Seeds) == 0 || len(t.Grad.Inputs) == 0 {
		return w, engine.Errorf(engine.CodeBadTokens, "a gradient needs a seed of an output (%s) and an input (%s); %d and %d are given",
			specNames(limits.Outputs), specNames(limits.Inputs), len(t.Grad.Seeds), len(t.Grad.Inputs))
	}
	if err := checkTensors("seed", t.Grad.Seeds, limits.Outputs, false); err != nil {
		return w, err
	}
	request := gradient.Request{Wanted: t.Grad.Inputs}
	for i, name := range t.Grad.Inputs {
		if findSpec(limits.Inputs, name) < 0 || slices.Contains(t.Grad.Inputs[:i], name) {
			return w, engine.Errorf(engine.CodeBadTokens, "a gradient is asked to the input %.100q, which the model does not have, or twice", name)
		}
	}
	w.inputs, w.seeds = slices.Clone(w.inputs), t.Grad.Seeds
	for _, r := range t.Grad.Seeds {
		request.Seeded = append(request.Seeded, r.Name)
		r.Name = engine.SeedPrefix + r.Name
		w.inputs = append(w.inputs, r)
	}
	outputs, _, err := wantedOutputs(t.Outputs, limits.Outputs)
	if err != nil {
		return w, err
	}
	for i, o := range limits.Outputs { // in the network's own order, each once
		if len(t.Outputs) > 0 && slices.Contains(outputs, i) {
			request.Outputs = append(request.Outputs, o.Name)
		}
	}
	for _, name := range t.Outputs {
		w.wanted, w.names = append(w.wanted, slices.Index(request.Outputs, name)), append(w.names, name)
	}
	for i, name := range t.Grad.Inputs {
		w.wanted, w.names = append(w.wanted, len(request.Outputs)+i), append(w.names, name)
	}
	w.recipe = m.plans.newRecipe(shapes, &gradientOf{request})
	return w, nil
}

// findPlan finds or makes the plan of work, and holds the work to it. The plan is to be released, unless it is nil.
func (m *Model) findPlan(w *work) (*compiled, *engine.Error) {
	c, err := m.plans.getPlan(w.recipe)
	if err != nil {
		return nil, itemError(err)
	}
	refused := seedsFit(w.seeds, c)
	if refused == nil {
		refused = m.checkMemory(c, w.recipe.shapes)
	}
	if refused != nil {
		m.plans.release(c)
		return nil, refused
	}
	return c, nil
}

// seedsFit holds seeds to the shapes that outputs have for the item's inputs.
func seedsFit(seeds []engine.Ref, c *compiled) *engine.Error {
	for _, in := range c.Inputs {
		for _, r := range seeds {
			if engine.SeedPrefix+r.Name == in.Name && !slices.Equal(r.Shape, in.Shape) {
				return engine.Errorf(engine.CodeBadTokens, "seed %s has the shape %v; that output has %v for these inputs", r.Name, r.Shape, in.Shape)
			}
		}
	}
	return nil
}

// checkMemory refuses what takes more memory than there is.
func (m *Model) checkMemory(c *compiled, shapes map[string][]int) *engine.Error {
	if c.ArenaBytes > m.plans.limit {
		return itemError(m.tooLarge(c.ArenaBytes, shapes))
	}
	return nil
}

// itemError is an error as an item's.
func itemError(err error) *engine.Error {
	if known, ok := err.(*engine.Error); ok {
		return known
	}
	return engine.Errorf(engine.CodeBadTokens, "%v", err)
}

// checkTensors holds tensors to their specs: each given once, and all if every spec is to have one.
func checkTensors(what string, refs []engine.Ref, specs []wire.TensorSpec, every bool) *engine.Error {
	for i, r := range refs {
		at := findSpec(specs, r.Name)
		if at < 0 {
			return engine.Errorf(engine.CodeBadTokens, "%s %.100q is not one of the model's: %s", what, r.Name, specNames(specs))
		}
		spec := &specs[at]
		if slices.ContainsFunc(refs[:i], func(other engine.Ref) bool { return other.Name == r.Name }) {
			return engine.Errorf(engine.CodeBadTokens, "%s %s is given twice", what, r.Name)
		}
		if r.Type != spec.Type || !slices.EqualFunc(r.Shape, spec.Shape, func(n, allowed int) bool { return n > 0 && (allowed < 0 || n == allowed) }) {
			return engine.Errorf(engine.CodeBadTokens, "%s %s is %v %v; the model takes %v %v, where -1 is any", what, r.Name, r.Type, r.Shape, spec.Type, spec.Shape)
		}
		if n, ok := r.Bytes(); !ok || n > maxTensor {
			return engine.Errorf(engine.CodeTooLong, "%s %s of the shape %v has more than %d bytes", what, r.Name, r.Shape, maxTensor)
		}
	}
	for _, s := range specs {
		if every && !slices.ContainsFunc(refs, func(r engine.Ref) bool { return r.Name == s.Name }) {
			return engine.Errorf(engine.CodeBadTokens, "%s %s is missing", what, s.Name)
		}
	}
	return nil
}

// wantedOutputs are the positions of outputs that are asked for: all if none is named.
func wantedOutputs(names []string, specs []wire.TensorSpec) (at []int, all []string, err *engine.Error) {
	if len(names) == 0 {
		for i := range specs {
			at, all = append(at, i), append(all, specs[i].Name)
		}
		return at, all, nil
	}
	for _, name := range names {
		i := findSpec(specs, name)
		if i < 0 {
			return nil, nil, engine.Errorf(engine.CodeBadTokens, "the model has no output %.100q: it has %s", name, specNames(specs))
		}
		at = append(at, i)
	}
	return at, names, nil
}

func findSpec(specs []wire.TensorSpec, name string) int {
	return slices.IndexFunc(specs, func(s wire.TensorSpec) bool { return s.Name == name })
}

func specNames(specs []wire.TensorSpec) (list string) {
	for i, s := range specs {
		if i > 0 {
			list += ", "
		}
		list += s.Name
	}
	return list
}

// String tells what a plan of the gradient is for.
func (g gradientOf) String() string {
	return fmt.Sprintf("%q %q %q", g.Seeded, g.Wanted, g.Outputs)
}
