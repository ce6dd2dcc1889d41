package model

import (
	"slices"
	"unsafe"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/model/architecture"
	"github.com/prefillonly/prefillonly/engine/pooling"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/weights/store"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
)

// findTrunk finds out what the names of the source's tensors begin with.
func (m *Model) findTrunk(config weights.Config, source Source) error {
	if _, err := source.Find(m.spec.Embedding(), m.spec.Vocab, m.spec.Hidden); err == nil {
		return nil
	}
	bare, err := architecture.Bare(&config)
	if err != nil {
		return err
	}
	if _, err := source.Find(bare.Embedding(), bare.Vocab, bare.Hidden); err == nil {
		m.spec = bare
	}
	return nil // that no name is there is told later
}

// pooledHead is what vectors are made with, on the host.
type pooledHead struct {
	norm   hostNorm
	layers pooling.Head
}

// hostNorm is a norm's weights and biases on the host; there may be no biases.
type hostNorm struct{ weight, bias *pooling.Matrix }

// onBoth is a vector on the device, for logits, and on the host, for vectors.
type onBoth struct {
	kernels.Vector
	host *pooling.Matrix
}

// normParts are the last normalisation's weights, and biases.
func (m *Model) normParts() []store.Part {
	s := &m.spec
	m.norm = kernels.Norm{Eps: s.Eps, Centred: s.Centred}
	parts := []store.Part{m.normPart("final norm", s.Norm()+".weight", &m.norm.Weight, &m.pooled.norm.weight)}
	if s.NormBias {
		parts = append(parts, m.normPart("final norm's bias", s.Norm()+".bias", &m.norm.Bias, &m.pooled.norm.bias))
	}
	return parts
}

func (m *Model) normPart(kind, name string, device *kernels.Vector, host **pooling.Matrix) store.Part {
	p := m.tensorPart("vector", nil, newTensor(name, m.spec.Hidden))
	p.Kind = kind + m.offsetKind()
	p.Make = func(t []kernels.HostTensor) (kernels.Held, error) {
		values, err := weights.AddOffset(t[0], m.spec.NormOffset)
		if err != nil {
			return nil, err
		}
		there, err := pooling.NewMatrix(values)
		if err != nil {
			return nil, err
		}
		here, err := m.backend.NewVector(values)
		return &onBoth{here, there}, err
	}
	p.Set = func(h kernels.Held) {
		*device, *host = nil, nil
		if both, made := h.(*onBoth); made {
			*device, *host = both.Vector, both.host
		}
	}
	return p
}

// headParts are the parts of the classification head.
func (m *Model) headParts() (parts []store.Part) {
	to := &m.pooled
	to.layers = make(pooling.Head, len(m.spec.Head))
	for i, l := range m.spec.Head {
		if l.ReLU {
			to.layers[i].After = pooling.ReLU
		}
		parts = append(parts, onHost(setField(&to.layers[i].Weight), newTensor(l.Name+".weight", l.Rows, l.In)))
		if l.Biased {
			parts = append(parts, onHost(setField(&to.layers[i].Bias), newTensor(l.Name+".bias", l.Rows)))
		}
	}
	return parts
}

// onHost is a part that is kept in the host's memory.
func onHost(set func(kernels.Held), t store.Tensor) store.Part {
	return store.Part{Kind: "host", Tensors: []store.Tensor{t}, Set: set, Make: func(t []kernels.HostTensor) (kernels.Held, error) {
		return pooling.NewMatrix(t[0])
	}}
}

func (m *Model) checkPool(a *engine.Ask) *engine.Error {
	switch s := &m.spec; {
	case a.Pool == engine.PoolNone && s.VectorsOnly:
		return engine.Errorf(engine.CodeBadTokens, "the model has no LM head: it gives vectors and no tokens")
	case a.Head && s.Labels() == 0:
		return engine.Errorf(engine.CodeBadTokens, "the model has no classification head")
	case a.Pool > engine.PoolAll || a.Pool != engine.PoolNone && a.PromptLogprobs:
		return engine.Errorf(engine.CodeBadTokens, "pooling %d with prompt logprobs %t is not to be had", a.Pool, a.PromptLogprobs)
	}
	return nil
}

// isPooled says that the question is for a vector.
func (q question) isPooled() bool { return q.it.pool != nil }

// poolRows takes rows of the residual stream into their items' vectors, which are complete with the last row.
func (p *Pass) poolRows(x kernels.Mat, all []question) error {
	m, state := p.m, floatsOf(p.m.work.rowOnHost)
	for i, q := range all {
		row := x.Slice(i, i+1)
		m.backend.Read(p.m.work.rowOnHost, row.Buf, row.Off)
		m.normalise(state)
		q.it.pool.Add(state)
		if q.prompt != 0 {
			continue
		}
		v := q.it.pool.Vector()
		if q.it.Ask.Head {
			v = m.pooled.layers.Apply(v)
		}
		if res := &p.results[q.it.index]; slices.ContainsFunc(v, notFinite) {
			*res = wire.ItemResult{Job: res.Job, Err: engine.Errorf(engine.CodeInternal, "the model's vector of the prompt is not finite")}
		} else {
			res.Output.(*engine.TokenOutput).Vector = v
		}
	}
	return nil
}

// normalise is the last normalisation.
func (m *Model) normalise(state []float32) {
	n, eps := &m.pooled.norm, m.spec.Eps
	switch {
	case !m.spec.Centred:
		pooling.RMSNorm(state, n.weight.Data, eps)
	case n.bias != nil:
		pooling.LayerNorm(state, n.weight.Data, n.bias.Data, eps)
	default:
		pooling.LayerNorm(state, n.weight.Data, nil, eps)
	}
}

func notFinite(v float32) bool { return v-v != 0 }

// floatsOf are the numbers in b, which is aligned; the hosts of all backends are little-endian.
func floatsOf(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}
