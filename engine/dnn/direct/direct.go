// Package direct runs one network in this process: tensors in, tensors out, without an executor or a scheduler.
package direct

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn"
	"github.com/prefillonly/prefillonly/engine/weights/store"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
)

// Network is a network with its weights on a device. One goroutine, that of its backend, uses it.
type Network struct {
	network *dnn.Network
	model   *dnn.Model
	work    *dnn.Workspace
	limits  *wire.TensorLimits
	blobs   memory
	file    bool // the network is its own
}

// Output is a tensor of floating-point numbers that a network computed.
type Output struct {
	Name  string
	Shape []int
	Data  []float32
}

// Open makes a Network of a file. The backend is the caller's.
func Open(file string, backend kernels.Backend, o dnn.Options) (*Network, error) {
	network, err := dnn.Read(file, o)
	if err != nil {
		return nil, err
	}
	n, err := New(network, backend)
	if err != nil {
		_ = network.Close() // it was read alone
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	n.file = true
	return n, nil
}

// New makes a Network of one that is the caller's, who closes it later. The backend is the caller's, too.
func New(network *dnn.Network, backend kernels.Backend) (*Network, error) {
	n := &Network{network: network, blobs: memory{}}
	if err := n.load(backend); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

func (n *Network) load(backend kernels.Backend) (err error) {
	if n.model, err = dnn.Open(n.network, store.New(backend), n.blobs); err != nil {
		return err
	}
	n.limits = n.model.Info().Tensors
	if len(n.limits.Inputs) == 0 {
		return errors.New("the network has no inputs")
	}
	if n.work, err = dnn.NewWorkspace(backend, n.model.WorkBytes()); err != nil {
		return err
	}
	if err := n.model.Use(n.work); err != nil {
		return err
	}
	for i := range n.model.Chunks() {
		if err := n.model.LoadChunk(i); err != nil {
			return err
		}
	}
	return nil
}

// Close frees the network's memory, and what Open has read.
func (n *Network) Close() {
	if n.model != nil {
		n.model.Close()
	}
	if n.work != nil {
		n.work.Free()
	}
	if n.file {
		_ = n.network.Close() // it was read alone
	}
}

// Limits are what the network takes and gives.
func (n *Network) Limits() *wire.TensorLimits { return n.limits }

// Input is what the network takes first.
func (n *Network) Input() wire.TensorSpec { return n.limits.Inputs[0] }

// Outputs are the names and shapes of the outputs of floating-point numbers, of which -1 may be any.
func (n *Network) Outputs() (outputs []Output) {
	for _, out := range n.limits.Outputs {
		if _, ok := floats[out.Type]; ok {
			outputs = append(outputs, Output{Name: out.Name, Shape: out.Shape})
		}
	}
	return outputs
}

// floats are the types of floating-point numbers: the others say such as how many there are.
var floats = map[engine.DType]kernels.DType{engine.FP32: kernels.F32, engine.FP16: kernels.F16, engine.BF16: kernels.BF16}

// Run computes all outputs of floating-point numbers for an input of a shape, whose elements are little-endian. An error of
// engine.CodeTooLong says that they take too much memory.
func (n *Network) Run(shape []int, data []byte) ([]Output, error) {
	defer clear(n.blobs)
	if len(n.limits.Inputs) != 1 {
		return nil, fmt.Errorf("the network has %d inputs, want one", len(n.limits.Inputs))
	}
	in := engine.Ref{Name: n.Input().Name, Type: n.Input().Type, Shape: shape}
	refs, err := n.compute(engine.Tensors{Inputs: n.putInputs([]engine.Ref{in}, [][]byte{data}), Frames: 1})
	if err != nil {
		return nil, err
	}
	return n.floatOutputs(refs), nil
}

// Gradient computes how the sum over seeds of seed x output, each named after an output and of its shape, changes with the input.
func (n *Network) Gradient(shape []int, data []byte, seeds []Output) ([]float32, error) {
	in := n.Input()
	outputs, err := n.Backward(nil, []engine.Ref{{Name: in.Name, Type: in.Type, Shape: shape}}, [][]byte{data}, seeds, []string{in.Name})
	if err != nil {
		return nil, err
	}
	return outputs[0].Data, nil
}

// Backward computes some outputs of inputs, whose data is little-endian, and behind them how the sum over seeds of seed x output changes with the
// inputs that are wanted.
func (n *Network) Backward(outputs []string, inputs []engine.Ref, data [][]byte, seeds []Output, wanted []string) ([]Output, error) {
	defer clear(n.blobs)
	work := engine.Tensors{Inputs: n.putInputs(inputs, data), Outputs: outputs, Frames: 1, Grad: &engine.Grad{Inputs: wanted}}
	for _, s := range seeds {
		data := make([]byte, 4*len(s.Data))
		for i, v := range s.Data {
			binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(v))
		}
		work.Grad.Seeds = append(work.Grad.Seeds, engine.Ref{Name: s.Name, Type: engine.FP32, Shape: s.Shape, Blob: n.blobs.putTensor(data)})
	}
	refs, err := n.compute(work)
	if err != nil {
		return nil, err
	}
	return n.floatOutputs(refs), nil
}

// Infer computes some outputs of inputs, whose data is little-endian.
func (n *Network) Infer(outputs []string, inputs []engine.Ref, data [][]byte) (found []engine.Ref, values [][]byte, err error) {
	defer clear(n.blobs)
	if found, err = n.compute(engine.Tensors{Inputs: n.putInputs(inputs, data), Outputs: outputs, Frames: 1}); err != nil {
		return nil, nil, err
	}
	for _, ref := range found {
		values = append(values, n.blobs[ref.Blob])
	}
	return found, values, nil
}

// putInputs makes blobs of inputs.
func (n *Network) putInputs(inputs []engine.Ref, data [][]byte) []engine.Ref {
	inputs = slices.Clone(inputs)
	for i := range inputs {
		inputs[i].Blob = n.blobs.putTensor(data[i])
	}
	return inputs
}

func (n *Network) compute(work engine.Tensors) ([]engine.Ref, error) {
	pass, err := n.model.Begin(&wire.Run{Items: []wire.RunItem{{Work: &wire.TensorItem{Tensors: work}}}})
	if err != nil {
		return nil, err
	}
	defer pass.Close()
	for done := false; !done; {
		if done, err = pass.Step(); err != nil {
			return nil, err
		}
	}
	result := pass.Results()[0]
	if result.Err != nil {
		return nil, result.Err
	}
	return result.Output.(*engine.TensorOutput).Outputs, nil
}

// floatOutputs are those of floating-point numbers.
func (n *Network) floatOutputs(refs []engine.Ref) (outputs []Output) {
	for _, ref := range refs {
		typ, ok := floats[ref.Type]
		if !ok {
			continue
		}
		data := n.blobs[ref.Blob]
		values := make([]float32, int64(len(data))/typ.Size())
		kernels.Expand(values, typ, data)
		outputs = append(outputs, Output{Name: ref.Name, Shape: ref.Shape, Data: values})
	}
	return outputs
}

// memory is blobs of this process.
type memory map[string][]byte

func (m memory) putTensor(data []byte) string {
	name := fmt.Sprint(len(m))
	m[name] = data
	return name
}

// Put implements dnn.Blobs.
func (m memory) Put(data []byte) (string, error) {
	return m.putTensor(bytes.Clone(data)), nil
}

// Read implements dnn.Blobs.
func (m memory) Read(blob string, dst []byte) error {
	data, ok := m[blob]
	if !ok || len(data) != len(dst) {
		return fmt.Errorf("there is no blob %s of %d bytes", blob, len(dst))
	}
	copy(dst, data)
	return nil
}
