package model

import (
	"errors"
	"fmt"
	"strings"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
)

// layer is one transformer layer's weights.
type layer struct {
	attnNorm     kernels.Vector
	qkv          kernels.Linear
	qNorm, kNorm kernels.Vector // nil unless the family has them
	out          kernels.Linear
	mlpNorm      kernels.Vector
	gated, down  kernels.Linear
}

// lastLayer has its queries apart from keys and values, since it computes them at other rows.
type lastLayer struct {
	layer // without qkv
	q, kv kernels.Linear
}

// loader builds weights and remembers the first error.
type loader struct {
	*Model
	source Source
	stage  weights.Stage
	done   int64 // bytes of tensors that were built
	err    error
}

// fileReader is a backend that reads tensors from their files itself, on their way to a device.
type fileReader interface{ ReadsFiles() bool }

// staged puts tensors into memory for a backend that wants them there.
func (l *loader) staged(tensors ...kernels.HostTensor) []kernels.HostTensor {
	if l.err != nil {
		return tensors
	}
	if b, ok := l.backend.(fileReader); ok && b.ReadsFiles() {
		return tensors
	}
	staged, err := l.stage.Read(tensors...)
	l.err = err
	return staged
}

// built reports tensors that are in the backend now.
func (l *loader) built(tensors ...kernels.HostTensor) {
	for _, t := range tensors {
		l.done += int64(len(t.Data))
	}
	if l.opts.Progress != nil && l.err == nil {
		l.opts.Progress(l.done, l.source.Bytes())
	}
}

// load packs all weights, a layer at a time: beside what is packed already, no more than one
// matrix is resident in the source.
func (m *Model) load(source Source) error {
	l := &loader{Model: m, source: source}
	defer l.stage.Free()
	s := &m.spec
	m.table = l.embedding("model.embed_tokens.weight")
	m.head = m.table
	for i := range s.layers {
		name := layerName(i)
		source.Ahead(layerName(i + 1))
		if i < s.layers-1 {
			next := l.layer(name)
			next.qkv = l.projections(name, "q", "k", "v")
			m.layers = append(m.layers, next)
		} else {
			m.last = lastLayer{l.layer(name), l.projections(name, "q"), l.projections(name, "k", "v")}
		}
		if l.err != nil {
			return l.err
		}
	}
	m.norm = l.vector("model.norm.weight", s.hidden)
	if !s.tied {
		m.head = l.embedding(lmHead + ".weight")
	}
	if l.err == nil {
		m.rope, l.err = m.backend.NewRope(s.invFreq, 1, m.opts.MaxLen)
	}
	if l.err == nil {
		l.err = m.checkUntaken(source)
	}
	return errors.Join(l.err, m.backend.Sync())
}

// layerName is what the names of a layer's tensors begin with.
func layerName(i int) string { return fmt.Sprintf("model.layers.%d.", i) }

// checkUntaken refuses tensors that would change the result if they were used: a checkpoint with
// biases, adapters or scales that its config.json does not announce.
func (m *Model) checkUntaken(source Source) error {
	for _, name := range source.Untaken() {
		known := strings.HasSuffix(name, "rotary_emb.inv_freq") || m.spec.tied && name == lmHead+".weight"
		if !known {
			return fmt.Errorf("the checkpoint's tensor %q has no place in the model that config.json describes", name)
		}
	}
	return nil
}

func (l *loader) layer(name string) layer {
	s := &l.spec
	q := s.heads.Q * s.heads.Dim
	next := layer{
		attnNorm: l.vector(name+"input_layernorm.weight", s.hidden),
		out:      l.output(name+"self_attn.o_proj", q, s.outBias),
		mlpNorm:  l.vector(name+"post_attention_layernorm.weight", s.hidden),
		gated:    l.gated(name+"mlp.gate_proj", name+"mlp.up_proj"),
		down:     l.output(name+"mlp.down_proj", s.intermediate, false),
	}
	if s.qkNorm {
		next.qNorm = l.vector(name+"self_attn.q_norm.weight", s.heads.Dim)
		next.kNorm = l.vector(name+"self_attn.k_norm.weight", s.heads.Dim)
	}
	return next
}

// projections stacks some of the attention's "q", "k" and "v".
func (l *loader) projections(name string, which ...string) kernels.Linear {
	h := l.spec.heads
	var names []string
	var rows []int
	for _, w := range which {
		names = append(names, name+"self_attn."+w+"_proj")
		rows = append(rows, map[string]int{"q": h.Q, "k": h.KV, "v": h.KV}[w]*h.Dim)
	}
	parts, bias := l.stack(names, rows, l.spec.hidden, l.spec.qkvBias)
	return keep(l, append(parts, bias...), func(t []kernels.HostTensor) (kernels.Linear, error) {
		return l.backend.NewLinear(t[:len(parts)], t[len(parts):])
	})
}

// output is a matrix whose product goes back into the residual stream.
func (l *loader) output(name string, in int, biased bool) kernels.Linear {
	parts, bias := l.stack([]string{name}, []int{l.spec.hidden}, in, biased)
	return keep(l, append(parts, bias...), func(t []kernels.HostTensor) (kernels.Linear, error) {
		return kernels.NewOutputLinear(l.backend, t[:1], t[1:])
	})
}

func (l *loader) tensor(name string, shape ...int) kernels.HostTensor {
	if l.err != nil {
		return kernels.HostTensor{}
	}
	t, err := l.source.Tensor(name, shape...)
	l.err = err
	if module, _ := strings.CutSuffix(name, ".weight"); err == nil && l.spec.fp8[module] != (t.Type == kernels.F8E4M3) {
		l.err = fmt.Errorf("tensor %q is %s, which quantization_config of config.json contradicts", name, t.Type)
	}
	return t
}

// stack lists matrices of the given rows, and their biases.
func (l *loader) stack(names []string, rows []int, cols int, biased bool) (parts, bias []kernels.HostTensor) {
	for i, name := range names {
		parts = append(parts, l.tensor(name+".weight", rows[i], cols))
		if biased {
			bias = append(bias, l.tensor(name+".bias", rows[i]))
		}
	}
	return parts, bias
}

func (l *loader) gated(gate, up string) kernels.Linear {
	g := l.tensor(gate+".weight", l.spec.intermediate, l.spec.hidden)
	u := l.tensor(up+".weight", l.spec.intermediate, l.spec.hidden)
	return keep(l, []kernels.HostTensor{g, u}, func(t []kernels.HostTensor) (kernels.Linear, error) { return l.backend.NewGatedLinear(t[0], t[1]) })
}

// embedding makes a table. Backends that hold a copy let go of the source's.
func (l *loader) embedding(name string) kernels.Table {
	t := l.tensor(name, l.spec.vocab, l.spec.hidden)
	if l.err == nil {
		l.err = weights.Check(t) // it may be looked up in its mapping from now on
	}
	table := keep(l, nil, func([]kernels.HostTensor) (kernels.Table, error) { return l.backend.NewTable(t) })
	l.built(t)
	switch {
	case l.err != nil:
	case table.Bytes() > 0:
		l.source.Release(t)
	default:
		l.weights += int64(len(t.Data)) // looked up in the source's own memory
	}
	return table
}

func (l *loader) vector(name string, n int) kernels.Vector {
	t := l.tensor(name, n)
	if l.err != nil {
		return nil
	}
	staged, err := l.stage.Read(t) // the values are converted in any backend's host memory
	if err != nil {
		l.err = err
		return nil
	}
	v, err := l.backend.NewVector(staged[0])
	if err != nil {
		l.err = fmt.Errorf("tensor %q: %w", name, err)
	}
	l.weights += 4 * int64(n)
	l.built(t)
	l.source.Release(t)
	return v
}

// held is what matrices and tables have in common.
type held interface {
	Bytes() int64
	Free()
}

// keep builds a matrix out of tensors, which the source may then release, and frees it with the model.
func keep[T held](l *loader, tensors []kernels.HostTensor, build func(staged []kernels.HostTensor) (T, error)) T {
	var built T
	staged := l.staged(tensors...)
	if l.err != nil {
		return built
	}
	if built, l.err = build(staged); l.err != nil {
		return built
	}
	l.weights += built.Bytes()
	l.close = append(l.close, built.Free)
	l.built(tensors...)
	for _, t := range tensors {
		l.source.Release(t)
	}
	return built
}
