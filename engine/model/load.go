package model

import (
	"fmt"
	"strings"

	"github.com/prefillonly/prefillonly/engine/model/architecture"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/weights/store"
	"github.com/prefillonly/prefillonly/kernels"
)

// layer is one transformer layer's weights.
type layer struct {
	attn, mlp    sublayerNorms
	qkv          kernels.Linear
	qNorm, kNorm kernels.Vector // nil unless the family has them
	out          kernels.Linear
	mlps         []mlp         // one, or those of experts
	router       kernels.Table // of experts; nil where there are none
	sharedGate   kernels.Table // of the last expert, which all rows go through; nil where there is none
	rotation     int           // of m.ropes
	low          []lowLayer    // by adapters
}

// mlp is an MLP's matrices.
type mlp struct{ up, down kernels.Linear }

// sublayerNorms are those of what attention or the MLP is given, and of what it gives; families have both or one.
type sublayerNorms struct{ before, after kernels.Norm }

// lastLayer has its queries apart from keys and values, since it computes them at other rows.
type lastLayer struct {
	layer // without qkv
	q, kv kernels.Linear
}

// weightChunks lists what the model is made of: the embedding, its layers, and what comes after them. Loaded
// parts become fields of the model.
func (m *Model) weightChunks() []store.Chunk {
	s := &m.spec
	table := m.tensorPart("table", setField(&m.table), newTensor(s.Embedding(), s.Vocab, s.Hidden))
	if s.Tied && !s.VectorsOnly {
		table.Set = setBoth(setField(&m.table), setField(&m.head))
	}
	list := []store.Chunk{{Name: "embedding", Parts: []store.Part{table}}}
	for i := range s.Layers {
		list = append(list, store.Chunk{Name: fmt.Sprintf("layer %d", i), Parts: m.layerParts(i)})
	}
	last := append(m.headParts(), m.normParts()...)
	m.ropes = make([]kernels.Rope, len(s.Rotations))
	for i := range s.Rotations {
		last = append(last, m.ropePart(i))
	}
	if !s.Tied && !s.VectorsOnly {
		last = append(last, m.lmHeadPart())
	}
	return append(list, store.Chunk{Name: "head", Parts: last})
}

func (m *Model) layerParts(i int) []store.Part {
	s, name, last := &m.spec, m.spec.LayerName(i), i == m.spec.Layers-1
	x := s.Matrices(i)
	qkv, out := x[:3], x[3:4]
	l := &m.last.layer
	if !last {
		l = &m.layers[i]
	}
	l.rotation, l.low = s.LayerRotation[i], make([]lowLayer, len(m.opts.Adapters))
	parts := append([]store.Part{m.matrixPart("output", setField(&l.out), out, s.OutBias)}, m.mlpParts(l, i)...)
	for _, n := range []struct {
		norm *kernels.Norm
		name string
	}{{&l.attn.before, s.Norms.Attention}, {&l.attn.after, s.Norms.AttentionGave}, {&l.mlp.before, s.Norms.MLP}, {&l.mlp.after, s.Norms.MLPGave}} {
		parts = append(parts, m.layerNormParts(n.norm, name+n.name, n.name != "")...)
	}
	parts = append(parts, m.adapterParts(l.low, "output", func(l *lowLayer) *lowRank { return &l.out }, out)...)
	if own := m.adaptable(i)[4:]; len(own) > 0 {
		up, down := own[:len(own)-1], own[len(own)-1:]
		parts = append(parts, m.adapterParts(l.low, m.upKind(), func(l *lowLayer) *lowRank { return &l.up }, up)...)
		parts = append(parts, m.adapterParts(l.low, "output", func(l *lowLayer) *lowRank { return &l.down }, down)...)
	}
	if s.QKNorm {
		q, k := s.Heads.Dim, s.Heads.Dim
		if s.WholeQKNorm {
			q, k = q*s.Heads.Q, k*s.Heads.KV
		}
		parts = append(parts,
			m.tensorPart("vector", setField(&l.qNorm), newTensor(name+"self_attn.q_norm.weight", q)),
			m.tensorPart("vector", setField(&l.kNorm), newTensor(name+"self_attn.k_norm.weight", k)))
	}
	if !last {
		parts = append(parts, m.adapterParts(l.low, "linear", func(l *lowLayer) *lowRank { return &l.qkv }, qkv)...)
		return append(parts, m.matrixPart("linear", setField(&l.qkv), qkv, s.QKVBias))
	}
	parts = append(parts, m.adapterParts(l.low, "linear", func(l *lowLayer) *lowRank { return &l.q }, qkv[:1])...)
	parts = append(parts, m.adapterParts(l.low, "linear", func(l *lowLayer) *lowRank { return &l.kv }, qkv[1:])...)
	return append(parts, m.matrixPart("linear", setField(&m.last.q), qkv[:1], s.QKVBias), m.matrixPart("linear", setField(&m.last.kv), qkv[1:], s.QKVBias))
}

// mlpParts are the matrices of a layer's MLP, or of its experts and what chooses them.
func (m *Model) mlpParts(l *layer, i int) (parts []store.Part) {
	s, list := &m.spec, m.spec.MLPs(i)
	l.mlps = make([]mlp, len(list))
	for e, x := range list {
		up, down := x[:len(x)-1], x[len(x)-1:]
		parts = append(parts, m.matrixPart(m.upKind(), setField(&l.mlps[e].up), up, s.MLPBias), m.matrixPart("output", setField(&l.mlps[e].down), down, s.MLPBias))
	}
	if s.HasExperts(i) {
		parts = append(parts, m.tensorPart("table", setField(&l.router), newTensor(s.Router(i), s.Mixture.Experts, s.Hidden)))
	}
	if s.HasExperts(i) && s.Mixture.Shared {
		parts = append(parts, m.tensorPart("table", setField(&l.sharedGate), newTensor(s.SharedGate(i), 1, s.Hidden)))
	}
	return parts
}

// layerNormParts are a norm's weights, and biases, where the family has it.
func (m *Model) layerNormParts(norm *kernels.Norm, name string, there bool) (parts []store.Part) {
	s := &m.spec
	*norm = kernels.Norm{Eps: s.Eps, Centred: s.Centred}
	if there {
		parts = append(parts, m.tensorPart("vector", setField(&norm.Weight), newTensor(name+".weight", s.Hidden)))
	}
	if there && s.NormBias {
		parts = append(parts, m.tensorPart("vector", setField(&norm.Bias), newTensor(name+".bias", s.Hidden)))
	}
	return parts
}

// upKind is that of the part of an MLP's first matrix.
func (m *Model) upKind() string {
	if m.spec.Ungated {
		return "linear"
	}
	return "gated"
}

// setField puts what a part has become into a field, or nothing.
func setField[T kernels.Held](field *T) func(kernels.Held) {
	return func(h kernels.Held) { *field, _ = h.(T) }
}

func setBoth(a, b func(kernels.Held)) func(kernels.Held) {
	return func(h kernels.Held) {
		a(h)
		b(h)
	}
}

func newTensor(name string, shape ...int) store.Tensor {
	return store.Tensor{Name: name, Shape: shape}
}

// tensorPart is what the backend makes of one tensor that is not a matrix of a layer.
func (m *Model) tensorPart(kind string, set func(kernels.Held), t store.Tensor) store.Part {
	p := store.Part{Kind: kind, Tensors: []store.Tensor{t}, Set: set}
	if kind == "table" {
		p.InPlace = true
		p.Bytes = int64(t.Shape[0]) * int64(t.Shape[1]) * m.backend.ActType().Size()
		p.Make = func(t []kernels.HostTensor) (kernels.Held, error) { return m.backend.NewTable(t[0]) }
	} else {
		p.Kind += m.offsetKind()
		p.Bytes = 4 * int64(t.Shape[0])
		p.Make = func(t []kernels.HostTensor) (kernels.Held, error) {
			weight, err := weights.AddOffset(t[0], m.spec.NormOffset)
			if err != nil {
				return nil, err
			}
			return m.backend.NewVector(weight)
		}
	}
	return p
}

// offsetKind ends the kinds of parts whose norms have an offset.
func (m *Model) offsetKind() string {
	if m.spec.NormOffset == 0 {
		return ""
	}
	return fmt.Sprintf(" plus %g", m.spec.NormOffset)
}

// scaleBytes is a scale's size in a backend's memory.
const scaleBytes = 4

// matrixBytes is what a matrix is expected to take.
func (m *Model) matrixBytes(x architecture.Matrix) int64 {
	elements := int64(x.Rows) * int64(x.In)
	if m.spec.Scheme(x.Name).Quantized() {
		return elements + scaleBytes*int64(x.Rows)
	}
	if group, ok := m.spec.KeptGroup(x); ok && m.holdsGroups() {
		return kernels.GroupBytes(int64(x.Rows), int64(x.In), int64(group))
	}
	return elements * m.backend.ActType().Size()
}

// holdsGroups says whether the backend keeps codes of four bits.
func (m *Model) holdsGroups() bool {
	_, ok := m.backend.(kernels.GroupHolder)
	return ok
}

// severalRanks is a backend over several ranks, each of which has its part of every matrix.
type severalRanks interface{ Ranks() int }

// ofRank is a rank's share of a matrix's bytes.
func (m *Model) ofRank(bytes int64) int64 {
	if r, ok := m.backend.(severalRanks); ok {
		return bytes / int64(r.Ranks())
	}
	return bytes
}

// lmHeadPart is an LM head of its own. What is in codes has a layout of the backend's own.
func (m *Model) lmHeadPart() store.Part {
	s := &m.spec
	p, scheme := m.tensorPart("table", setField(&m.head), newTensor(s.LMHead()+".weight", s.Vocab, s.Hidden)), s.Scheme(s.LMHead())
	if !scheme.Quantized() {
		return p
	}
	p.InPlace, p.Bytes = false, m.matrixBytes(architecture.Matrix{Name: s.LMHead(), Rows: s.Vocab, In: s.Hidden})
	if scheme.WeightOnly {
		p.Kind += weightsAlone
	}
	p.Make = func(t []kernels.HostTensor) (kernels.Held, error) {
		t[0].WeightOnly = scheme.WeightOnly
		return m.backend.NewTable(t[0])
	}
	return p
}

// weightsAlone ends the kinds of parts whose codes are multiplied with activations that have none.
const weightsAlone = " of weights alone"

func (m *Model) ropePart(i int) store.Part {
	positions, scale := m.opts.MaxLen, m.spec.Rotations[i].Scale
	freq := m.spec.Rotations[i].Frequencies(positions)
	return store.Part{
		Kind:  fmt.Sprintf("rope %d %v %g", positions, freq, scale),
		Bytes: 4 * int64(m.spec.Heads.Dim) * int64(positions), // a cosine and a sine for half of the dimension
		Make:  func([]kernels.HostTensor) (kernels.Held, error) { return m.backend.NewRope(freq, scale, positions) },
		Set:   setField(&m.ropes[i]),
	}
}

// matrixPart stacks linear layers, and their biases.
func (m *Model) matrixPart(kind string, set func(kernels.Held), stack []architecture.Matrix, biased bool) store.Part {
	p, weightOnly := store.Part{Kind: kind, Set: set}, m.spec.Scheme(stack[0].Name).WeightOnly
	if weightOnly {
		p.Kind += weightsAlone
	}
	for _, x := range stack {
		p.Tensors = append(p.Tensors, newTensor(x.Name+".weight", x.Of, x.In))
		p.Bytes += m.ofRank(m.matrixBytes(x))
		p.Kind += m.rowsKind(x)
	}
	if biased {
		for _, x := range stack {
			p.Tensors = append(p.Tensors, newTensor(x.Name+".bias", x.Of))
			p.Bytes += m.ofRank(m.backend.ActType().Size() * int64(x.Rows))
		}
	}
	p.Make = func(t []kernels.HostTensor) (kernels.Held, error) {
		parts, bias := t[:len(stack)], t[len(stack):]
		for i := range t {
			rows := m.matrixRows
			if i >= len(stack) {
				rows = m.biasRows
			}
			var err error
			if t[i], err = rows(stack[i%len(stack)], t[i]); err != nil {
				return nil, err
			}
			t[i].WeightOnly = weightOnly && i < len(stack)
		}
		switch kind {
		case "output":
			return kernels.NewOutputLinear(m.backend, parts, bias)
		case "gated":
			return m.backend.NewGatedLinear(parts[0], parts[1])
		default:
			return m.backend.NewLinear(parts, bias)
		}
	}
	return p
}

// checkTensors checks all tensors against the source's headers, and sets their sizes.
func (m *Model) checkTensors(source Source, chunks []store.Chunk) error {
	for _, c := range chunks {
		for i := range c.Parts {
			for j := range c.Parts[i].Tensors {
				t := &c.Parts[i].Tensors[j]
				typ, err := source.Find(t.Name, t.Shape...)
				if err != nil {
					return err
				}
				module, _ := strings.CutSuffix(t.Name, ".weight")
				if scheme := m.spec.Scheme(module); (scheme.Quantized() || typ.Scaled()) && scheme.Type != typ {
					return fmt.Errorf("tensor %q is %s, which quantization_config of config.json contradicts", t.Name, typ)
				}
				t.Bytes = typ.Size()
				for _, n := range t.Shape {
					t.Bytes *= int64(n)
				}
			}
		}
	}
	return m.checkUntaken(source)
}

// checkUntaken refuses tensors that would change the result if they were used: a checkpoint with
// biases, adapters or scales that its config.json does not announce.
func (m *Model) checkUntaken(source Source) error {
	for _, name := range source.Untaken() {
		if !m.spec.IsUnused(name) {
			return fmt.Errorf("the checkpoint's tensor %q has no place in the model that config.json describes", name)
		}
	}
	return nil
}
