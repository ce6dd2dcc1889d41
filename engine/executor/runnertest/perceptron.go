package runnertest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// Perceptron is a model of two layers over rows of float32: y = B tanh(A x).
type Perceptron struct {
	Name            string
	In, Hidden, Out int
	A, B            uint64 // seeds of the layers; equal layers of two models are one piece of weights
}

// Perceptrons is a Runner of tensors and gradients, small but real, for tests of what is around runners.
type Perceptrons struct {
	Blobs
	info   wire.ExecutorInfo
	models map[string]perceptron
	pieces []*matrix
}

// perceptron is a Perceptron on the device.
type perceptron struct {
	limits *wire.TensorLimits
	a, b   *matrix
}

// matrix is a piece of weights; values is nil while it is not loaded.
type matrix struct {
	seed     uint64
	rows, in int
	values   []float32
}

// NewPerceptrons makes a runner of models, whose tensors are in blobs.
func NewPerceptrons(blobs Blobs, models ...Perceptron) *Perceptrons {
	r := &Perceptrons{Blobs: blobs, models: map[string]perceptron{}}
	r.info = wire.ExecutorInfo{Device: "perceptrons", CanPause: true, Nests: true}
	for _, m := range models {
		a, b := r.internPiece(m.A, m.Hidden, m.In), r.internPiece(m.B, m.Out, m.Hidden)
		limits := &wire.TensorLimits{
			Inputs:       []wire.TensorSpec{{Name: "x", Type: engine.FP32, Shape: []int{-1, m.In}}},
			Outputs:      []wire.TensorSpec{{Name: "y", Type: engine.FP32, Shape: []int{-1, m.Out}}, {Name: "h", Type: engine.FP32, Shape: []int{-1, m.Hidden}}},
			MaxPassItems: 8, Backward: 1,
		}
		r.models[m.Name] = perceptron{limits, r.pieces[a], r.pieces[b]}
		r.info.Models = append(r.info.Models, wire.ModelInfo{
			Name: m.Name, Fingerprint: fmt.Sprint(m.A, m.B), Weights: []uint32{a, b}, Tensors: limits,
		})
	}
	return r
}

// internPiece finds or adds a piece of weights.
func (r *Perceptrons) internPiece(seed uint64, rows, in int) uint32 {
	for i, p := range r.pieces {
		if p.seed == seed && p.rows == rows && p.in == in {
			return uint32(i)
		}
	}
	r.pieces = append(r.pieces, &matrix{seed: seed, rows: rows, in: in})
	r.info.Weights = append(r.info.Weights, wire.Weight{Bytes: uint64(4 * rows * in)})
	return uint32(len(r.pieces) - 1)
}

// Info implements executor.Runner.
func (r *Perceptrons) Info() wire.ExecutorInfo {
	info := r.info
	info.Weights, info.Models = slices.Clone(info.Weights), slices.Clone(info.Models)
	for i, p := range r.pieces {
		info.Weights[i].Resident = p.values != nil
	}
	return info
}

// Held is the number of bytes of weights that are loaded.
func (r *Perceptrons) Held() int64 {
	held := 0
	for _, p := range r.pieces {
		held += 4 * len(p.values)
	}
	return int64(held)
}

// Load implements executor.Runner.
func (r *Perceptrons) Load(_ string, weight uint32) (done bool, err error) {
	p := r.pieces[weight]
	random := rand.New(rand.NewPCG(p.seed, 1))
	p.values = make([]float32, p.rows*p.in)
	for i := range p.values {
		p.values[i] = float32(random.NormFloat64() / math.Sqrt(float64(p.in)))
	}
	return true, nil
}

// Drop implements executor.Runner.
func (r *Perceptrons) Drop(weights []uint32) {
	for _, w := range weights {
		r.pieces[w].values = nil
	}
}

// Close implements executor.Runner.
func (r *Perceptrons) Close() {}

// Begin implements executor.Runner. An item that is malformed is refused alone.
func (r *Perceptrons) Begin(run *wire.Run) (executor.Pass, error) {
	m, ok := r.models[run.Model]
	if !ok {
		return nil, fmt.Errorf("there is no model %q", run.Model)
	}
	if m.a.values == nil || m.b.values == nil {
		return nil, fmt.Errorf("model %s is not loaded whole", run.Model)
	}
	if len(run.Items) > m.limits.MaxPassItems {
		return nil, fmt.Errorf("a pass of %d jobs, the limit is %d", len(run.Items), m.limits.MaxPassItems)
	}
	p := &perceptronPass{r: r, m: m, run: run, items: make([]perceptronItem, len(run.Items))}
	for i := range p.items {
		p.items[i].err = p.items[i].readInputs(r, &m, run.Items[i].Work)
	}
	return p, nil
}

// perceptronItem is an item with the values of its tensors.
type perceptronItem struct {
	*engine.Tensors
	rows       int
	x, h, y    []float32
	seed, grad []float32
	err        *engine.Error
}

// readInputs checks an item and reads its inputs.
func (it *perceptronItem) readInputs(r *Perceptrons, m *perceptron, work wire.ItemWork) *engine.Error {
	item, ok := work.(*wire.TensorItem)
	if !ok {
		return engine.Errorf(engine.CodeInternal, "%T is no item of tensors", work)
	}
	it.Tensors = &item.Tensors
	for _, name := range it.Outputs {
		if name != "y" && name != "h" {
			return engine.Errorf(engine.CodeBadTokens, "there is no output %q", name)
		}
	}
	var err *engine.Error
	if it.x, it.rows, err = r.read(it.Inputs, "x", m.a.in); err != nil || it.Grad == nil {
		return err
	}
	for _, name := range it.Grad.Inputs {
		if name != "x" {
			return engine.Errorf(engine.CodeBadTokens, "there is no input %q", name)
		}
	}
	rows := 0
	if it.seed, rows, err = r.read(it.Grad.Seeds, "y", m.b.rows); err == nil && rows != it.rows {
		err = engine.Errorf(engine.CodeBadTokens, "seed y has %d rows, the inputs have %d", rows, it.rows)
	}
	return err
}

// maxTensor is how many bytes a tensor may have.
const maxTensor = 64 << 20

// read finds the one tensor of a name, of rows of so many columns.
func (r *Perceptrons) read(refs []engine.Ref, name string, columns int) ([]float32, int, *engine.Error) {
	if len(refs) != 1 || refs[0].Name != name {
		return nil, 0, engine.Errorf(engine.CodeBadTokens, "tensors %+v are given, %q is wanted", refs, name)
	}
	ref := &refs[0]
	if ref.Type != engine.FP32 || len(ref.Shape) != 2 || ref.Shape[0] < 1 || ref.Shape[1] != columns {
		return nil, 0, engine.Errorf(engine.CodeBadTokens, "tensor %s is %v %v, want %v [-1 %d]", name, ref.Type, ref.Shape, engine.FP32, columns)
	}
	n, ok := ref.Bytes()
	if !ok || n > maxTensor {
		return nil, 0, engine.Errorf(engine.CodeBadTokens, "tensor %s of %d rows is larger than %d bytes", name, ref.Shape[0], maxTensor)
	}
	raw := make([]byte, n)
	if err := r.Read(ref.Blob, raw); err != nil {
		return nil, 0, engine.Errorf(engine.CodeInternal, "tensor %s: %v", name, err)
	}
	return decodeFloats(raw), ref.Shape[0], nil
}

// perceptronPass computes a layer of an item in a step, and then its gradient.
type perceptronPass struct {
	r     *Perceptrons
	m     perceptron
	run   *wire.Run
	items []perceptronItem
	step  int
}

func (p *perceptronPass) stepCount() int { return 2 * len(p.items) }
func (p *perceptronPass) Boundary() bool { return true }
func (p *perceptronPass) Share() float64 { return float64(p.step) / float64(p.stepCount()) }
func (p *perceptronPass) Close()         {}

func (p *perceptronPass) Step() (bool, error) {
	if it := &p.items[p.step/2]; it.err == nil && p.step%2 == 0 {
		it.h = p.m.a.multiplyRows(it.x)
		for i, v := range it.h {
			it.h[i] = float32(math.Tanh(float64(v)))
		}
	} else if it.err == nil {
		it.y = p.m.b.multiplyRows(it.h)
		if it.Grad != nil {
			it.grad = p.m.b.transposedTimes(it.seed)
			for i, h := range it.h {
				it.grad[i] *= 1 - h*h
			}
			it.grad = p.m.a.transposedTimes(it.grad)
		}
	}
	p.step++
	return p.step == p.stepCount(), nil
}

func (p *perceptronPass) Results() []wire.ItemResult {
	results := make([]wire.ItemResult, len(p.items))
	for i := range p.items {
		it, job := &p.items[i], p.run.Items[i].Job
		results[i] = wire.ItemResult{Job: job, Err: it.err}
		if it.err != nil {
			continue
		}
		if refs, err := p.putOutputs(it); err != nil {
			results[i].Err = engine.Errorf(engine.CodeOverloaded, "outputs of job %v: %v", job, err)
		} else {
			results[i].Output = &engine.TensorOutput{Outputs: refs}
		}
	}
	return results
}

func (p *perceptronPass) putOutputs(it *perceptronItem) (refs []engine.Ref, failed error) {
	add := func(name string, values []float32) {
		blob, err := p.r.Put(encodeFloats(values))
		failed = errors.Join(failed, err)
		refs = append(refs, engine.Ref{Name: name, Type: engine.FP32, Shape: []int{it.rows, len(values) / it.rows}, Blob: blob})
	}
	wanted := it.Outputs
	if len(wanted) == 0 && it.Grad == nil {
		wanted = []string{"y", "h"}
	}
	for _, name := range wanted {
		add(name, map[string][]float32{"y": it.y, "h": it.h}[name])
	}
	if it.Grad != nil {
		for _, name := range it.Grad.Inputs {
			add(name, it.grad)
		}
	}
	return refs, failed
}

// multiplyRows is x W^T for the rows of x.
func (w *matrix) multiplyRows(x []float32) []float32 {
	var out []float32
	for row := range slices.Chunk(x, w.in) {
		for line := range slices.Chunk(w.values, w.in) {
			sum := float32(0)
			for i, v := range line {
				sum += v * row[i]
			}
			out = append(out, sum)
		}
	}
	return out
}

// transposedTimes is y W for the rows of y.
func (w *matrix) transposedTimes(y []float32) []float32 {
	var out []float32
	for row := range slices.Chunk(y, w.rows) {
		sums := make([]float32, w.in)
		for k, v := range row {
			for i := range sums {
				sums[i] += v * w.values[k*w.in+i]
			}
		}
		out = append(out, sums...)
	}
	return out
}

func encodeFloats(values []float32) []byte {
	var raw []byte
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return raw
}

func decodeFloats(raw []byte) []float32 {
	values := make([]float32, 0, len(raw)/4)
	for word := range slices.Chunk(raw, 4) {
		values = append(values, math.Float32frombits(binary.LittleEndian.Uint32(word)))
	}
	return values
}

// Memory is Blobs within a process; the zero value is empty.
type Memory struct {
	mu    sync.Mutex
	blobs [][]byte // guarded by mu
}

// Put implements Blobs.
func (m *Memory) Put(data []byte) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.blobs = append(m.blobs, slices.Clone(data))
	return strconv.Itoa(len(m.blobs) - 1), nil
}

// Read implements Blobs.
func (m *Memory) Read(blob string, dst []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, err := strconv.Atoi(blob)
	if err != nil || i >= len(m.blobs) || len(m.blobs[i]) != len(dst) {
		return fmt.Errorf("there is no blob %q of %d bytes", blob, len(dst))
	}
	copy(dst, m.blobs[i])
	return nil
}
