// Package specialize makes of a network one for inputs of given shapes: with all shapes that can be known, what
// depends on constants alone computed, and nothing that no output needs.
package specialize

import (
	"fmt"
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/internal/mapped"
)

// Run returns g for inputs of these shapes, by name; what is -1, or not there, is as g has it. Large constants may
// be those of g, and so of its file.
//
// Where g leaves a dimension open, any size goes that its nodes allow. Where it fixes one, there are two ways to
// another size. If inputs of one frame, whose first dimension is 1, are to have n, then the graph is changed to
// compute the same of each frame; it is an error if that cannot be proven. Other dimensions are changed as if the
// file said so: an error if nodes do not fit, or if the graph reshapes to a constant shape that is of the old size.
func Run(g *graph.Graph, shapes map[string][]int) (*graph.Graph, error) {
	var out *graph.Graph
	err := mapped.Guard(func() error {
		plan, err := resolveShapes(g, shapes)
		if err != nil {
			return err
		}
		if out, err = foldGraph(g, plan.shapes); err != nil {
			return err
		}
		if plan.resized {
			was, err := foldGraph(g, nil)
			if err != nil {
				return err
			}
			if err := sameReshapes(was, out); err != nil {
				return err
			}
		}
		if plan.frames > 1 {
			return batchGraph(out, plan.batched, plan.frames)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// wanted is what Run was asked for: shapes for one frame where the graph fixes the first dimension to 1.
type wanted struct {
	shapes  map[string][]int
	resized bool            // a dimension that is fixed changes
	frames  int             // above 1: so many at once
	batched map[string]bool // inputs that have so many
}

// resolveShapes checks the shapes that are asked for against the inputs.
func resolveShapes(g *graph.Graph, shapes map[string][]int) (*wanted, error) {
	w := &wanted{shapes: map[string][]int{}, batched: map[string]bool{}}
	inputs := map[string]bool{}
	for _, v := range g.Inputs {
		inputs[v.Name] = true
		shape, ok := shapes[v.Name]
		if !ok {
			continue
		}
		if v.Rank >= 0 && v.Rank != len(shape) {
			return nil, fmt.Errorf("input %q has %d dimensions, and the shape %v has %d", v.Name, v.Rank, shape, len(shape))
		}
		shape = slices.Clone(shape)
		w.shapes[v.Name] = shape
		for i, was := range v.Shape {
			switch d := shape[i]; {
			case d < 0:
				shape[i] = was
			case was < 0 || was == d:
			case i == 0 && was == 1 && d > 1:
				if w.frames > 1 && w.frames != d {
					return nil, fmt.Errorf("input %q is of %d frames, and others of %d", v.Name, d, w.frames)
				}
				w.frames, shape[0], w.batched[v.Name] = d, 1, true
			default:
				w.resized = true
			}
		}
	}
	for name := range shapes {
		if !inputs[name] {
			return nil, fmt.Errorf("there is no input %q", name)
		}
	}
	return w, nil
}

// sameReshapes refuses a graph that, made for other sizes of inputs than it was, reshapes what is new to what was:
// the constant shape is one of the old size, and fits by chance.
func sameReshapes(was, now *graph.Graph) error {
	before := map[string]*graph.Node{} // by output; what changed nothing is not there
	for _, n := range was.Nodes {
		if n.Op == "Reshape" {
			before[n.Out[0].Name] = n
		}
	}
	for _, n := range now.Nodes {
		if n.Op != "Reshape" {
			continue
		}
		old := before[n.Out[0].Name]
		if old == nil || !slices.Equal(n.In[0].Shape, old.In[0].Shape) && slices.Equal(n.Out[0].Shape, old.Out[0].Shape) {
			return fmt.Errorf("%v makes the shape %v of %v: it is one of the size that the file fixes, and the graph is for that size alone", n, n.Out[0].Shape, n.In[0].Shape)
		}
	}
	return nil
}
