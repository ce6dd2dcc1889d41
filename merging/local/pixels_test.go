//go:build cgo

package local

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/onnx/onnxtest"
	"github.com/prefillonly/prefillonly/merging"
	"github.com/prefillonly/prefillonly/videoext"
)

// segmenter is the file of a network of drawn weights that says of which of six classes each pixel is. Those of its layers can be changed, each by a part of it.
func segmenter(change float64) []byte {
	const classes = 6
	random, changed := rand.New(rand.NewPCG(1, 7)), rand.New(rand.NewPCG(2, 7))
	drawn := func(name string, mean, deviation float64, dims ...int) onnxtest.Tensor {
		t, n := onnxtest.Tensor{Name: name, Type: onnxtest.Float32, Dims: dims}, 1
		for _, d := range dims {
			n *= d
		}
		for range n {
			t.Floats = append(t.Floats, mean+deviation*random.NormFloat64())
		}
		return t
	}
	g := onnxtest.Graph{
		Inputs:    []onnxtest.Value{{Name: "x", Type: onnxtest.Float32, Dims: []any{1, 3, 48, 80}}},
		Outputs:   []onnxtest.Value{{Name: "y", Type: onnxtest.Float32, Dims: []any{1, classes, 48, 80}}},
		Constants: []onnxtest.Tensor{onnxtest.Ints("sizes", 1, classes, 48, 80)},
	}
	node := func(op string, attributes map[string]any, out string, in ...string) string {
		g.Nodes = append(g.Nodes, onnxtest.Node{Name: out, Op: op, In: in, Out: []string{out}, Attrs: attributes})
		return out
	}
	x := "x"
	for i, channels := range [][2]int{{3, 8}, {8, 8}} {
		of := fmt.Sprint("layer", i, ".")
		weights := drawn(of+"weight", 0, 1/math.Sqrt(9*float64(channels[0])), channels[1], channels[0], 3, 3)
		for k := range weights.Floats {
			weights.Floats[k] *= 1 + change*changed.NormFloat64()
		}
		g.Constants = append(g.Constants, weights, drawn(of+"scale", 1, .2, channels[1]), drawn(of+"shift", 0, .2, channels[1]), drawn(of+"mean", 0, .1, channels[1]),
			drawn(of+"variance", .3, 0, channels[1]), drawn(of+"slope", .2, .05, channels[1], 1, 1))
		x = node("Conv", map[string]any{"pads": []int{1, 1, 1, 1}, "strides": []int{2 - i, 2 - i}}, of+"conv", x, of+"weight")
		x = node("BatchNormalization", nil, of+"norm", x, of+"scale", of+"shift", of+"mean", of+"variance")
		x = node("PRelu", nil, of+"act", x, of+"slope")
	}
	g.Constants = append(g.Constants, drawn("head.weight", 0, 1, classes, 8, 1, 1), drawn("head.bias", 0, .3, classes))
	x = node("Conv", nil, "head", x, "head.weight", "head.bias")
	node("Resize", map[string]any{"mode": "linear"}, "y", x, "", "", "sizes")
	return onnxtest.File(13, g)
}

// TestSegmenterAdoptsLayers: a network of pixels takes another's weights in all layers but its head, and comes nearer again to what its own weights said by
// its scales, shifts and slopes and the head's weights: mean IoU .63, then .76.
func TestSegmenterAdoptsLayers(t *testing.T) {
	clip, ctx := drawnClip(t, 100), context.Background()
	var models []merging.TrainedModel
	for i, name := range []string{"street", "other"} {
		change := .2 * float64(i)
		models = append(models, merging.TrainedModel{Name: name, File: written(t, name+".onnx", segmenter(change)), Decoder: "segmentation", Clip: clip})
	}
	in, err := New(Options{Unaltered: true}).Open(ctx, models, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var ties []merging.Tie
	for _, layer := range []string{"layer0.conv", "layer1.conv"} {
		ties = append(ties, merging.Tie{Donor: 1, Members: []merging.Member{{Model: 0, Layer: layer}, {Model: 1, Layer: layer}}})
	}
	if err := in.Tie(ties); err != nil {
		t.Fatal(err)
	}
	score := func() merging.Score {
		s, err := in.Evaluate(ctx, 0, merging.HeldOut)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", s)
		if !(s.Low <= s.High) || s.Frames != 30 || s.Objects < 100 {
			t.Errorf("got %+v", s)
		}
		return s
	}
	before := score()
	for _, part := range []float64{1, .5} {
		if _, err := in.Train(ctx, []int{0}, 4, part*0.15); err != nil {
			t.Fatal(err)
		}
	}
	after := score()
	if after.Value < .7 || after.Low < before.High+.05 {
		t.Errorf("mean IoU %.3f of adopted weights, and %.3f when trained; want .7 or more, and .05 more than before", before.Value, after.Value)
	}
	changed := in.Constants(0)
	for _, name := range []string{"layer0.scale", "layer1.shift", "layer1.slope", "head.weight", "head.bias"} {
		if changed[name] == nil {
			t.Errorf("%s was not trained", name)
		}
	}
	if len(in.Constants(1)) > 0 {
		t.Error("the donor has changed")
	}
}

// TestSegmentersScore: what has few pixels in all does not count, what is missed does, and blocks of frames make the interval.
func TestSegmentersScore(t *testing.T) {
	mask := func(classes string) *videoext.Mask {
		m := &videoext.Mask{Width: len(classes), Height: 100, Class: []byte(strings.Repeat(classes, 100))}
		return m
	}
	truth, found := make([]videoext.Findings, 40), make([]videoext.Findings, 40)
	for i := range truth {
		truth[i].Mask = mask("aaaaaaabbb")
		if found[i].Mask = mask("aaaaaaabbb"); i < 10 {
			found[i].Mask = mask("aaaaaaaaab")
		}
	}
	truth[3].Mask.Class[0] = 'c' // a thousandth of one frame's pixels
	s := scoreFindings(truth, found, 1)
	want := (280./300 + 100./120) / 2
	if math.Abs(s.Value-want) > 1e-4 || s.Frames != 40 || s.Objects != 41 || !(s.Low < s.Value && s.Value < s.High && s.High == 1) {
		t.Errorf("got %+v, want %v", s, want)
	}
	if s := scoreFindings(truth, truth, 1); s.Value != 1 || s.Low != 1 {
		t.Errorf("the truth has %+v", s)
	}
}

// TestMapsOfLikelihood are told from those of logarithms by how the network ends.
func TestMapsOfLikelihood(t *testing.T) {
	for _, c := range []struct {
		ops    []string
		likely bool
	}{{[]string{"Conv"}, false}, {[]string{"Softmax"}, true}, {[]string{"Softmax", "Transpose", "Resize"}, true}, {[]string{"Softmax", "Conv"}, false}} {
		if got := endsInSoftmax(chain(c.ops)); got != c.likely {
			t.Errorf("%v: %v", c.ops, got)
		}
	}
}

// chain is the last value of operations, one behind the other.
func chain(ops []string) *graph.Value {
	last := graph.NewValue("x")
	for _, op := range ops {
		last = &graph.Value{Name: op, From: &graph.Node{Op: op, In: []*graph.Value{last}}}
	}
	return last
}
