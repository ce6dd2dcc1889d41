package local

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/direct"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/onnx"
	"github.com/prefillonly/prefillonly/engine/images"
	"github.com/prefillonly/prefillonly/engine/inspect"
	"github.com/prefillonly/prefillonly/merging"
	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/detect"
	"github.com/prefillonly/prefillonly/videoext/vision"
)

// model is a network of a session.
type model struct {
	merging.TrainedModel
	file      *onnx.Model
	layers    []inspect.Layer
	own       []*graph.Value // constants that are trained unless they are tied
	decoder   *vision.Decoder
	objective objective
	input     *images.Target
	shape     []int           // of the input
	outputs   []direct.Output // without data

	feed  *feed // nil: it was not needed yet
	truth map[merging.Split][]videoext.Findings

	adopted map[*graph.Value]*graph.Tensor // constants of its file that are a donor's
	trained []*use
}

// use is a constant of a model that is a parameter's.
type use struct {
	value     *graph.Value
	parameter *parameter
}

// openModel reads a network's file. What it computes is told by its original, which runs it.
func openModel(m merging.TrainedModel) (*model, error) {
	decoder, err := vision.Find(m.Decoder)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Name, err)
	}
	file, err := onnx.Open(m.File)
	if err != nil {
		return nil, err
	}
	opened := &model{TrainedModel: m, file: file, layers: inspect.Layers(file.Graph), decoder: decoder, truth: map[merging.Split][]videoext.Findings{}}
	opened.listOwn()
	return opened, nil
}

// listOwn finds what is trained if it is not tied: weights and biases of layers, the scales and shifts of normalisations, and slopes.
func (m *model) listOwn() {
	add := func(v *graph.Value) {
		if v != nil && v.Const != nil && v.Type == engine.FP32 && !slices.Contains(m.own, v) {
			m.own = append(m.own, v)
		}
	}
	for _, l := range m.layers {
		add(l.Weights)
		add(l.Bias)
	}
	for _, n := range m.file.Graph.Nodes {
		switch n.Op {
		case "BatchNormalization":
			add(n.Input(1))
			add(n.Input(2))
		case "PRelu":
			add(n.Input(1))
		}
	}
}

// describeModel settles what goes into the network and comes out, by what its original says of itself.
func (m *model) describeModel(original *direct.Network) (err error) {
	if n := len(original.Limits().Inputs); n != 1 {
		return fmt.Errorf("%s: the network has %d inputs, want one of pictures", m.File, n)
	}
	in := original.Input()
	if m.input, err = images.NewTarget(in.Type, in.Shape, detect.Usual(m.Decoder)); err != nil {
		return fmt.Errorf("%s: input %s: %w", m.File, in.Name, err)
	}
	if m.input.Height == 0 || m.input.Width == 0 {
		return fmt.Errorf("%s: input %s is of any size (%v), want a file of a network for one size", m.File, in.Name, in.Shape)
	}
	m.shape = m.input.Shape(1, m.input.Height, m.input.Width)
	m.outputs = original.Outputs()
	var names []string
	var outputs []vision.Output
	for i := range m.outputs {
		out := &m.outputs[i]
		if len(out.Shape) > 0 && out.Shape[0] < 0 { // of any number of pictures
			out.Shape[0] = 1
		}
		if slices.Min(append(out.Shape, 1)) < 1 || len(m.outputs) != len(m.file.Graph.Outputs) {
			return fmt.Errorf("%s: output %s is %v, want outputs of numbers whose sizes are known", m.File, out.Name, out.Shape)
		}
		names, outputs = append(names, out.Name), append(outputs, vision.Output(*out))
	}
	if err := m.decoder.Check(outputs, m.size()); err != nil {
		return fmt.Errorf("%s: %w", m.File, err)
	}
	if m.Decoder == "segmentation" {
		m.objective, err = pixelsOf(m.file.Graph, outputs, m.size())
	} else {
		m.objective, err = meaningOf(m.Decoder, names)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", m.File, err)
	}
	return nil
}

func (m *model) size() vision.Size {
	return vision.Size{Height: m.input.Height, Width: m.input.Width}
}

// readClip reads the clip, once.
func (m *model) readClip(ctx context.Context, most int) (err error) {
	if m.feed == nil {
		m.feed, err = readFeed(ctx, m.Clip, m.input, most)
	}
	return err
}

// copyGraph is a copy of the file's, with other constants.
func (m *model) copyGraph(constants map[*graph.Value]*graph.Tensor) *graph.Graph {
	g, now := m.file.Graph.Clone()
	for v, t := range constants {
		now[v].Const = t
	}
	return g
}

// changedConstants are those that are not the file's now.
func (m *model) changedConstants() map[*graph.Value]*graph.Tensor {
	all := map[*graph.Value]*graph.Tensor{}
	for v, t := range m.adopted {
		all[v] = t
	}
	for _, u := range m.trained {
		all[u.value] = tensorOf(u.value.Const, u.parameter.average)
	}
	return all
}

// findLayer is that of a name; nil: none.
func (m *model) findLayer(name string) *inspect.Layer {
	i := slices.IndexFunc(m.layers, func(l inspect.Layer) bool { return l.Name == name })
	if i < 0 {
		return nil
	}
	return &m.layers[i]
}

// readFindings reads outputs.
func (m *model) readFindings(outputs []direct.Output, p picture) (videoext.Findings, error) {
	r, err := m.decodeFindings(outputs, p)
	return r.Findings(vision.Size{Height: p.height, Width: p.width}), err
}

// decodeFindings reads outputs, in the picture's own coordinates.
func (m *model) decodeFindings(outputs []direct.Output, p picture) (vision.Result, error) {
	read := make([]vision.Output, len(outputs))
	for i, o := range outputs {
		read[i] = vision.Output(o)
	}
	r, err := m.decoder.Decode(read, vision.Options{Input: m.size()})
	if err != nil {
		return r, fmt.Errorf("%s: %w", m.File, err)
	}
	inner := vision.Size{Height: p.height, Width: p.width}
	r.Place(inner, inner)
	return r, nil
}

// print tells a model by what training it depends on.
func (m *model) print() [32]byte {
	h := sha256.New()
	for _, f := range m.file.Files() {
		h.Write(f.Data())
	}
	h.Write([]byte(m.Decoder))
	return [32]byte(h.Sum(nil))
}

// tensorOf is a tensor like another, of these elements.
func tensorOf(like *graph.Tensor, elements []float32) *graph.Tensor {
	wide := make([]float64, len(elements))
	for i, v := range elements {
		wide[i] = float64(v)
	}
	return graph.FromFloats(like.Type, like.Shape, wide)
}

// elementsOf are a tensor's.
func elementsOf(t *graph.Tensor) []float32 {
	elements := make([]float32, t.Len())
	for i, v := range t.Floats() {
		elements[i] = float32(v)
	}
	return elements
}

func littleEndian(values []float32) []byte {
	data := make([]byte, 4*len(values))
	for i, v := range values {
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(v))
	}
	return data
}
