package local

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/merging"
	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/accuracy"
	"github.com/prefillonly/prefillonly/videoext/vision"
)

// pixels are what a map of classes says: which class each pixel is of, in one of the output's four dimensions.
type pixels struct {
	classes int  // the dimension
	likely  bool // they are probabilities, and not logarithms of them but for a common term
}

// pixelsOf is what the only output of a graph says of pictures of a size.
func pixelsOf(g *graph.Graph, outputs []vision.Output, in vision.Size) (*pixels, error) {
	classes, err := vision.ClassDimension(outputs, in)
	return &pixels{classes, endsInSoftmax(g.Outputs[0])}, err
}

// keepsProbabilities are operations that keep a softmax's result what it is.
var keepsProbabilities = []string{"Identity", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Resize", "Cast"}

func endsInSoftmax(v *graph.Value) bool {
	for v != nil && v.From != nil && slices.Contains(keepsProbabilities, v.From.Op) {
		v = v.From.Input(0)
	}
	return v != nil && v.From != nil && v.From.Op == "Softmax"
}

// rarest is the share of a picture below which a class counts no more than if it had it.
const rarest = 1e-3

// writeLoss adds the mean divergence of classes' probabilities (Kullback and Leibler) over pixels, each weighed by one over the root of its class's share of the
// picture: between all pixels alike, by which small things are nothing, and all classes alike, by which a few pixels are as much as the road.
func (p *pixels) writeLoss(w lossWriter, outputs, answers []*graph.Value) *graph.Value {
	class, places := int64(p.classes), []int64{2, 3}
	if p.classes == 3 {
		places = []int64{1, 2}
	}
	likely, logarithm := p.readLikely(w, answers[0])
	_, found := p.readLikely(w, outputs[0])
	divergence := w.addReduction(w.Op("Mul", nil, likely, w.Op("Sub", nil, logarithm, found)), class)
	share := w.Op("ReduceMean", graph.Attrs{"keepdims": int64(1)}, likely, w.Const("axes", graph.Vector(places...)))
	matters := w.addReduction(w.Op("Div", nil, likely, w.Op("Sqrt", nil, w.Op("Add", nil, share, w.addConstant(rarest)))), class)
	return w.Op("ReduceMean", graph.Attrs{"keepdims": int64(0)}, w.Op("Mul", nil, matters, divergence))
}

// readLikely is the probabilities that a map has, and their logarithms.
func (p *pixels) readLikely(w lossWriter, v *graph.Value) (likely, logarithm *graph.Value) {
	if p.likely {
		return v, w.Op("Log", nil, w.Op("Add", nil, v, w.addConstant(leastYes)))
	}
	along := graph.Attrs{"axis": int64(p.classes)}
	return w.Op("Softmax", along, v), w.Op("LogSoftmax", along, v)
}

// leastShare is how much of the truth's pixels a class has by which a network is judged. A class that is in a few pixels here and there would count as much
// as the road.
const leastShare = 0.001

// scoreMasks is the mean IoU of frames, one by one.
func scoreMasks(truth, found []videoext.Findings, seed uint64) merging.Score {
	s := merging.Score{Frames: len(truth)}
	var all accuracy.Overlaps
	var blocks []*accuracy.Overlaps
	for i := range truth {
		if i%blockFrames == 0 {
			blocks = append(blocks, &accuracy.Overlaps{})
		}
		blocks[len(blocks)-1].Count(truth[i].Mask, found[i].Mask)
		s.Objects += areas(truth[i].Mask)
	}
	for _, b := range blocks {
		all.Add(b)
	}
	s.Value = all.MeanIoU(leastShare)
	s.Low, s.High = resample(len(blocks), func(drawn []int) float64 {
		var all accuracy.Overlaps
		for _, b := range drawn {
			all.Add(blocks[b])
		}
		return all.MeanIoU(leastShare)
	}, seed)
	return s
}

// areas is how many classes a mask has beside the one that has most of it.
func areas(m *videoext.Mask) (n int) {
	var o accuracy.Overlaps
	o.Count(m, m)
	for _, pixels := range o.True {
		if pixels > 0 && float64(pixels) >= leastShare*float64(len(m.Class)) {
			n++
		}
	}
	return max(n-1, 0)
}
