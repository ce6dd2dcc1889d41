package local

import (
	"fmt"
	"math"
	"strings"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/ops"
)

// part is some of an output's values at each place.
type part struct{ output, axis, from, to int }

// rest is the end of a part that has all values.
const rest = math.MaxInt32

// meaning is what outputs say at each place.
type meaning struct {
	weight  part  // its sum, by the original, is how much there is a thing
	always  part  // probabilities that matter at all places
	classes *part // those that matter where there is a thing; nil: none
	boxes   part
	unit    float64 // a large error of boxes
}

// meaningOf is what outputs of these names say to a decoder.
func meaningOf(decoder string, outputs []string) (*meaning, error) {
	switch decoder {
	case "yolox":
		return &meaning{part{0, 2, 4, 5}, part{0, 2, 4, 5}, &part{0, 2, 5, rest}, part{0, 2, 0, 4}, 1}, nil
	case "fastestdet":
		return &meaning{part{0, 1, 0, 1}, part{0, 1, 0, 1}, &part{0, 1, 5, rest}, part{0, 1, 1, 5}, 1}, nil
	case "ssd":
		boxes := 1
		if strings.Contains(outputs[0], "box") {
			boxes = 0
		}
		return &meaning{part{1 - boxes, 2, 1, rest}, part{1 - boxes, 2, 0, rest}, nil, part{boxes, 2, 0, 4}, 0.05}, nil
	}
	return nil, fmt.Errorf("decoder %s has no loss to train by; yolox, fastestdet, ssd and segmentation have", decoder)
}

// objective adds the nodes of how far outputs are from the original's answers: a number, 0 where they are equal.
type objective interface {
	writeLoss(w lossWriter, outputs, answers []*graph.Value) *graph.Value
}

// addLoss makes a loss the only output of a graph.
func addLoss(w lossWriter, o objective, answers []*graph.Value) error {
	loss := w.Op("Reshape", nil, o.writeLoss(w, w.Graph.Outputs, answers), w.Const("shape", graph.Vector(1)))
	if w.Err() == nil {
		loss.Name, w.Graph.Outputs = lossName, []*graph.Value{loss}
	}
	return w.Err()
}

// lossWriter adds the nodes of a loss.
type lossWriter struct{ *graph.Builder }

func newLossWriter(g *graph.Graph) lossWriter {
	return lossWriter{graph.NewBuilder(g, func(n *graph.Node) error {
		op, ok := ops.Lookup(n.Op)
		if !ok {
			return fmt.Errorf("%v: unknown operation", n)
		}
		return op.Infer(n)
	})}
}

// writeLoss adds how far outputs are from the original's answers, 0 where they are equal: the divergence of probabilities and, where the original sees a
// thing, of classes, and smooth distances of boxes, wherever it is at all inclined to see one (Girshick, "Fast R-CNN", 2015).
func (m *meaning) writeLoss(w lossWriter, outputs, answers []*graph.Value) *graph.Value {
	both := func(p part) (answer, output *graph.Value) {
		return w.addSlice(answers[p.output], p), w.addSlice(outputs[p.output], p)
	}
	weight := w.addReduction(w.addSlice(answers[m.weight.output], m.weight), int64(m.weight.axis))
	matters := w.Op("Add", nil, w.addConstant(1), w.Op("Mul", nil, weight, w.addConstant(thingWeight)))
	total := w.addReduction(w.Op("Mul", nil, matters, w.addDivergence(both(m.always))))
	if m.classes != nil {
		total = w.Op("Add", nil, total, w.addReduction(w.Op("Mul", nil, weight, w.addDivergence(both(*m.classes)))))
	}
	answer, output := both(m.boxes)
	boxes := w.addDistance(w.Op("Mul", nil, answer, w.addConstant(1/m.unit)), w.Op("Mul", nil, output, w.addConstant(1/m.unit)))
	near := w.Op("Sqrt", nil, weight) // a place that is nearly sure of a thing is to draw the same box, so that one that is wrongly sure finds it no second time
	return w.Op("Add", nil, total, w.addReduction(w.Op("Mul", nil, near, boxes)))
}

// thingWeight is how much more the probabilities of a place matter where the original is sure of a thing. Places where there is none are many: without
// it the scores of what is hard to see sink until it is missed.
const thingWeight = 1

// addDivergence is that of Bernoulli variables (Kullback and Leibler), element by element.
func (w lossWriter) addDivergence(answer, output *graph.Value) *graph.Value {
	log := func(p *graph.Value, least float64) *graph.Value {
		return w.Op("Log", nil, w.Op("Add", nil, p, w.addConstant(least)))
	}
	not := func(p *graph.Value) *graph.Value { return w.Op("Sub", nil, w.addConstant(1), p) }
	yes := w.Op("Mul", nil, answer, w.Op("Sub", nil, log(answer, leastYes), log(output, leastYes)))
	no := w.Op("Mul", nil, not(answer), w.Op("Sub", nil, log(not(answer), leastNo), log(not(output), leastNo)))
	return w.Op("Add", nil, yes, no)
}

// What keeps logarithms finite. It is far below the probabilities of networks that have only adopted weights, whose slope would be nothing else; one less
// a probability is no finer than this in float32.
const (
	leastYes = 1e-20
	leastNo  = 1e-7
)

// addDistance is half the square of a difference up to 1, and beyond it grows as the difference does.
func (w lossWriter) addDistance(answer, output *graph.Value) *graph.Value {
	d := w.Op("Abs", nil, w.Op("Sub", nil, output, answer))
	near := w.Op("Min", nil, d, w.addConstant(1))
	return w.Op("Mul", nil, near, w.Op("Sub", nil, d, w.Op("Mul", nil, near, w.addConstant(0.5))))
}

func (w lossWriter) addConstant(x float64) *graph.Value {
	return w.Const("number", graph.Scalar(engine.FP32, x))
}

func (w lossWriter) addSlice(v *graph.Value, p part) *graph.Value {
	at := func(i int) *graph.Value { return w.Const("at", graph.Vector(int64(i))) }
	return w.Op("Slice", nil, v, at(p.from), at(p.to), at(p.axis))
}

// addReduction sums along axes, which stay; all if none is given, and none of them stays.
func (w lossWriter) addReduction(v *graph.Value, axes ...int64) *graph.Value {
	if len(axes) == 0 {
		return w.Op("ReduceSum", graph.Attrs{"keepdims": int64(0)}, v)
	}
	return w.Op("ReduceSum", graph.Attrs{"keepdims": int64(1)}, v, w.Const("axes", graph.Vector(axes...)))
}
