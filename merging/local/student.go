package local

import (
	"fmt"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn"
	"github.com/prefillonly/prefillonly/engine/dnn/direct"
	"github.com/prefillonly/prefillonly/engine/dnn/gradient"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/kernels"
)

// student is a network in training, for one goroutine: the file's graph with what is trained as inputs, and the loss.
type student struct {
	network *direct.Network
	model   *model
	inputs  []engine.Ref // the picture, parameters, and the original's answers
	wanted  []string     // parameters
	data    [][]byte     // of inputs
}

// lossName is the output of a student.
const lossName = "merging.loss"

// newStudent makes a network of a model's graph whose parameters are inputs, and with constants that are not its file's.
func newStudent(m *model, backend kernels.Backend) (*student, error) {
	s := &student{model: m}
	g, err := s.writeGraph()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.File, err)
	}
	network, err := dnn.New(g, "", dnn.Options{})
	if err == nil {
		err = network.ForGradients(gradient.Request{Seeded: []string{lossName}, Wanted: s.wanted, Outputs: []string{lossName}})
	}
	if err == nil {
		s.network, err = direct.New(network, backend)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: its gradients: %w", m.File, err)
	}
	return s, nil
}

// writeGraph makes the graph, and notes its inputs.
func (s *student) writeGraph() (*graph.Graph, error) {
	for _, u := range s.model.trained {
		s.wanted = append(s.wanted, u.value.Name)
	}
	g, err := s.model.copyGraph(s.model.adopted).Free(s.wanted...)
	if err != nil {
		return nil, err
	}
	w := newLossWriter(g)
	var answers []*graph.Value
	for i, out := range s.model.outputs {
		answers = append(answers, w.Input(fmt.Sprint("merging.answer.", i), engine.FP32, out.Shape...))
	}
	if err := addLoss(w, s.model.objective, answers); err != nil {
		return nil, err
	}
	for _, v := range g.Inputs {
		s.inputs = append(s.inputs, engine.Ref{Name: v.Name, Type: v.Type, Shape: v.Shape})
	}
	s.inputs[0].Shape = s.model.shape
	s.data = make([][]byte, len(s.inputs))
	return g, nil
}

// runBackward is the loss on a picture that the original has answered, and its gradient to each parameter.
func (s *student) runBackward(picture []byte, answers []direct.Output) (loss float32, gradients [][]float32, err error) {
	s.data[0] = picture
	for i, u := range s.model.trained {
		s.data[1+i] = littleEndian(u.parameter.values)
	}
	for i, a := range answers {
		s.data[1+len(s.wanted)+i] = littleEndian(a.Data)
	}
	seed := []direct.Output{{Name: lossName, Shape: []int{1}, Data: []float32{1}}}
	found, err := s.network.Backward([]string{lossName}, s.inputs, s.data, seed, s.wanted)
	if err != nil {
		return 0, nil, fmt.Errorf("%s: a step of training: %w", s.model.File, err)
	}
	for _, f := range found[1:] {
		gradients = append(gradients, f.Data)
	}
	return found[0].Data[0], gradients, nil
}

func (s *student) close() { s.network.Close() }
