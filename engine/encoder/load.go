package encoder

import (
	"fmt"
	"strings"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/weights/store"
	"github.com/prefillonly/prefillonly/kernels"
)

// embedding is what a prompt's tokens become: the sum of rows of the tables, normalised.
type embedding struct {
	words, positions, types kernels.Table
	norm                    norm
}

// norm is the parts of a kernels.Norm.
type norm struct{ weight, bias kernels.Vector }

func (n *norm) kernelNorm(s *spec) kernels.Norm {
	return kernels.Norm{Weight: n.weight, Bias: n.bias, Eps: s.eps, Centred: !s.rootMean}
}

// layer is one transformer layer's weights.
type layer struct {
	attnNorm, mlpNorm  norm // the first layer's attnNorm may have no weight
	attnGave, mlpGave  norm // of what attention and the MLP add; without weights where the family has none
	qNorm, kNorm       kernels.Vector
	qkv, out, up, down kernels.Linear
}

// head is the classification head's weights.
type head struct {
	dense, labels kernels.Linear
	norm          norm
}

// loader lists what a model is made of, under the names that a source has.
type loader struct {
	*Model
	source Source
	prefix string
	err    error // first
}

// findChunks lists the model's chunks, checked against the source's headers: the embedding, its layers, and what comes after
// them. Loaded parts become fields of the model.
func (m *Model) findChunks(source Source) ([]store.Chunk, error) {
	s := &m.spec
	l := loader{Model: m, source: source, prefix: s.names.prefixes[0]}
	for _, prefix := range s.names.prefixes {
		if _, err := source.Find(prefix+s.names.word+".weight", s.vocab, s.hidden); err == nil {
			l.prefix = prefix
			break
		}
	}
	list := []store.Chunk{l.embeddingChunk()}
	for i := range s.layers {
		list = append(list, l.layerChunk(i))
	}
	if last := l.headChunk(); len(last.Parts) > 0 {
		list = append(list, last)
	}
	if l.err == nil {
		l.checkUntaken()
	}
	return list, l.err
}

func (l *loader) embeddingChunk() store.Chunk {
	s, e := &l.spec, &l.Model.embedding
	n := &s.names
	parts := []store.Part{l.tablePart(&e.words, n.word, s.vocab)}
	if s.positions > 0 {
		parts = append(parts, l.tablePart(&e.positions, n.position, s.positions))
	}
	if s.types > 0 {
		parts = append(parts, l.tablePart(&e.types, n.typ, s.types))
	}
	return store.Chunk{Name: "embedding", Parts: append(parts, l.normParts(&e.norm, l.prefix, n.norm)...)}
}

func (l *loader) layerChunk(i int) store.Chunk {
	s, to := &l.spec, &l.layers[i]
	n, name := &s.names, l.prefix+fmt.Sprintf(l.spec.names.layer, i)
	var qkv []matrix
	rows := []int{s.heads.Q * s.heads.Dim, s.heads.KV * s.heads.Dim, s.heads.KV * s.heads.Dim}
	if len(n.qkv) == 1 {
		rows[0] = s.heads.QKVCols()
	}
	for i, part := range n.qkv {
		qkv = append(qkv, matrix{name + part, rows[i], s.hidden})
	}
	parts := []store.Part{
		l.linearPart("linear", &to.qkv, s.bias, qkv...),
		l.linearPart("output", &to.out, s.bias, matrix{name + n.out, s.hidden, s.heads.Q * s.heads.Dim}),
		l.upPart(to, name),
		l.linearPart("output", &to.down, s.bias && !s.gated, matrix{name + n.down, s.hidden, s.intermediate}),
	}
	if s.after || i > 0 || n.norm == "" { // the embedding of the others is normalised already
		parts = append(parts, l.normParts(&to.attnNorm, name, n.attnNorm)...)
	}
	parts = append(parts, l.normParts(&to.mlpNorm, name, n.mlpNorm)...)
	parts = append(parts, l.normParts(&to.attnGave, name, n.attnGave)...)
	parts = append(parts, l.normParts(&to.mlpGave, name, n.mlpGave)...)
	if n.qNorm != "" {
		parts = append(parts, l.vectorPart(&to.qNorm, s.heads.Dim, name+n.qNorm+".weight"), l.vectorPart(&to.kNorm, s.heads.Dim, name+n.kNorm+".weight"))
	}
	return store.Chunk{Name: fmt.Sprintf("layer %d", i), Parts: parts}
}

// upPart is the first matrix of an MLP; a gated one is stored in two tensors or in one, gate first.
func (l *loader) upPart(to *layer, name string) store.Part {
	s, up := &l.spec, l.spec.names.up
	switch {
	case !s.gated:
		return l.linearPart("linear", &to.up, s.bias, matrix{name + up[0], s.intermediate, s.hidden})
	case len(up) == 2:
		p := l.linearPart("gated", &to.up, false, matrix{name + up[0], s.intermediate, s.hidden}, matrix{name + up[1], s.intermediate, s.hidden})
		p.Make = func(t []kernels.HostTensor) (kernels.Held, error) { return l.backend.NewGatedLinear(t[0], t[1]) }
		return p
	}
	p := l.linearPart("gated halves", &to.up, false, matrix{name + up[0], 2 * s.intermediate, s.hidden})
	p.Make = func(t []kernels.HostTensor) (kernels.Held, error) {
		gate, up := t[0], t[0]
		half := len(t[0].Data) / 2
		gate.Rows, up.Rows = s.intermediate, s.intermediate
		gate.Data, up.Data = t[0].Data[:half], t[0].Data[half:]
		return l.backend.NewGatedLinear(gate, up)
	}
	return p
}

// headChunk is what comes after the layers: the last normalisation, rotary angles, and the classification head.
func (l *loader) headChunk() store.Chunk {
	s, n := &l.spec, &l.spec.names
	var parts []store.Part
	parts = append(parts, l.normParts(&l.final, l.prefix, n.final)...)
	for i := range s.freqs {
		parts = append(parts, l.ropePart(i))
	}
	if h := &s.head; h.labels > 0 {
		dense := n.dense
		if n.trunkDense {
			dense = l.prefix + dense
		}
		parts = append(parts, l.linearPart("linear", &l.head.dense, h.bias, matrix{dense, s.hidden, s.hidden}))
		if h.norm {
			parts = append(parts, l.normParts(&l.head.norm, "", n.headNorm)...)
		}
		parts = append(parts, l.linearPart("linear", &l.head.labels, true, matrix{n.labels, h.labels, s.hidden}))
	}
	return store.Chunk{Name: "head", Parts: parts}
}

// setField puts what a part has become into a field, or nothing.
func setField[T kernels.Held](field *T) func(kernels.Held) {
	return func(h kernels.Held) { *field, _ = h.(T) }
}

// findTensor finds a tensor by the first of some names that the source has.
func (l *loader) findTensor(shape []int, names ...string) store.Tensor {
	var typ kernels.DType
	var first error
	for _, name := range names {
		var err error
		if typ, err = l.source.Find(name, shape...); err == nil {
			t := store.Tensor{Name: name, Shape: shape, Bytes: typ.Size()}
			for _, n := range shape {
				t.Bytes *= int64(n)
			}
			return t
		}
		if first == nil {
			first = err
		}
	}
	if l.err == nil {
		l.err = first
	}
	return store.Tensor{}
}

func (l *loader) tablePart(field *kernels.Table, name string, rows int) store.Part {
	return store.Part{
		Kind: "table", InPlace: true, Set: setField(field),
		Tensors: []store.Tensor{l.findTensor([]int{rows, l.spec.hidden}, l.prefix+name+".weight")},
		Bytes:   int64(rows) * int64(l.spec.hidden) * l.backend.ActType().Size(),
		Make:    func(t []kernels.HostTensor) (kernels.Held, error) { return l.backend.NewTable(t[0]) },
	}
}

// normParts is a normalisation's vectors, which old checkpoints name otherwise; none where the family has no name for it.
func (l *loader) normParts(to *norm, prefix, name string) []store.Part {
	if name == "" {
		return nil
	}
	name = prefix + name
	parts := []store.Part{l.vectorPart(&to.weight, l.spec.hidden, name+".weight", name+".gamma")}
	if l.spec.normBias {
		parts = append(parts, l.vectorPart(&to.bias, l.spec.hidden, name+".bias", name+".beta"))
	}
	return parts
}

func (l *loader) vectorPart(field *kernels.Vector, length int, names ...string) store.Part {
	offset := l.spec.normOffset
	return store.Part{
		Kind: fmt.Sprintf("vector plus %g", offset), Set: setField(field), Bytes: 4 * int64(length),
		Tensors: []store.Tensor{l.findTensor([]int{length}, names...)},
		Make: func(t []kernels.HostTensor) (kernels.Held, error) {
			weight, err := weights.AddOffset(t[0], offset)
			if err != nil {
				return nil, err
			}
			return l.backend.NewVector(weight)
		},
	}
}

func (l *loader) ropePart(i int) store.Part {
	freq, positions := l.spec.freqs[i], l.opts.MaxLen
	return store.Part{
		Kind: fmt.Sprintf("rope %d %v", positions, freq), Set: setField(&l.ropes[i]),
		Bytes: 4 * int64(l.spec.heads.Dim) * int64(positions), // a cosine and a sine for half of the dimension
		Make:  func([]kernels.HostTensor) (kernels.Held, error) { return l.backend.NewRope(freq, 1, positions) },
	}
}

// matrix is the shape of a linear layer's weights.
type matrix struct {
	name     string
	rows, in int
}

// linearPart stacks linear layers, and their biases.
func (l *loader) linearPart(kind string, field *kernels.Linear, biased bool, stack ...matrix) store.Part {
	p := store.Part{Kind: kind, Set: setField(field)}
	for _, x := range stack {
		p.Tensors = append(p.Tensors, l.findTensor([]int{x.rows, x.in}, x.name+".weight"))
		p.Bytes += int64(x.rows) * int64(x.in) * l.backend.ActType().Size()
	}
	if biased {
		for _, x := range stack {
			p.Tensors = append(p.Tensors, l.findTensor([]int{x.rows}, x.name+".bias"))
			p.Bytes += 4 * int64(x.rows)
		}
	}
	p.Make = func(t []kernels.HostTensor) (kernels.Held, error) {
		return l.backend.NewLinear(t[:len(stack)], t[len(stack):])
	}
	return p
}

// checkUntaken refuses tensors that would change the result if they were used: a checkpoint with adapters, or biases
// that its config.json does not announce.
func (l *loader) checkUntaken() {
	for _, name := range l.source.Untaken() {
		known := false
		for _, unused := range l.spec.names.unused {
			known = known || strings.HasPrefix(name, unused) || strings.HasPrefix(name, l.prefix+unused)
		}
		if !known {
			l.err = fmt.Errorf("the checkpoint's tensor %q has no place in the model that config.json describes", name)
			return
		}
	}
}
