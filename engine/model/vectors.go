package model

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/pooling"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/weights/store"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
)

// usualTrunk is what names of tensors begin with, but for those of heads and in checkpoints of a model without one.
const usualTrunk = "model."

// purposes maps the ends of names in config.json's architectures to what a model of them ends with.
var purposes = map[string]func(*weights.Config, *spec) error{
	"ForCausalLM":               func(*weights.Config, *spec) error { return nil },
	"Model":                     withoutHead,
	"ForSequenceClassification": classifier,
	"ForRewardModel":            reward,
}

// purposeOf cuts an architecture's name into its family and its purpose; both are empty of one that is not supported.
func purposeOf(architecture string) (family, purpose string) {
	for purpose := range purposes {
		family, found := strings.CutSuffix(architecture, purpose)
		if found && families[family] != nil && (purpose != "ForRewardModel" || family == "Qwen2") {
			return family, purpose
		}
	}
	return "", ""
}

func withoutHead(_ *weights.Config, s *spec) error {
	s.vectorsOnly = true
	return nil
}

// linear is the shape of a layer of a classification head.
type linear struct {
	name     string
	rows, in int
	biased   bool
	relu     bool
}

// classifier is transformers' head of one matrix over the last token's state.
func classifier(c *weights.Config, s *spec) error {
	s.vectorsOnly = true
	s.head = []linear{{name: "score", rows: c.Labels(), in: s.hidden}}
	return s.checkHead()
}

// reward is the head of Qwen2.5-Math-RM: two layers, the last of one number unless the configuration says more.
func reward(c *weights.Config, s *spec) error {
	s.vectorsOnly = true
	labels := 1
	if c.NumLabels != nil {
		labels = *c.NumLabels
	}
	s.head = []linear{
		{name: "score.0", rows: s.hidden, in: s.hidden, biased: true, relu: true},
		{name: "score.2", rows: labels, in: s.hidden, biased: true},
	}
	return s.checkHead()
}

func (s *spec) checkHead() error {
	if n := s.labels(); n < 1 || n > 1<<20 {
		return fmt.Errorf("num_labels is %d, want 1 to %d", n, 1<<20)
	}
	return nil
}

// labels is how many logits the classification head gives; 0 without one.
func (s *spec) labels() int {
	if len(s.head) == 0 {
		return 0
	}
	return s.head[len(s.head)-1].rows
}

// columns is how many logits of tokens the model gives.
func (s *spec) columns() int {
	if s.vectorsOnly {
		return 0
	}
	return s.vocab
}

func (s *spec) embedding() string { return s.trunk + "embed_tokens.weight" }

// findTrunk finds out what the names of the source's tensors begin with: checkpoints that were saved without their head,
// as those of many embedding models were, have no prefix, whatever their architecture is called.
func (m *Model) findTrunk(config weights.Config, source Source) error {
	if _, err := source.Find(m.spec.embedding(), m.spec.vocab, m.spec.hidden); err == nil {
		return nil
	}
	bare, err := specIn(&config, "")
	if err != nil {
		return err
	}
	if _, err := source.Find(bare.embedding(), bare.vocab, bare.hidden); err == nil {
		m.spec = bare
	}
	return nil // that no name is there is told later
}

// pooledHead is what vectors are made with, on the host.
type pooledHead struct {
	norm   *pooling.Matrix
	layers pooling.Head
}

// finalNorm is the last normalisation's weights, of logits on the device and of vectors on the host.
type finalNorm struct {
	kernels.Vector
	host *pooling.Matrix
}

func (m *Model) normPart(t store.Tensor) store.Part {
	p := m.part("vector", nil, t)
	p.Kind = "final norm"
	p.Make = func(t []kernels.HostTensor) (kernels.Held, error) {
		host, err := pooling.NewMatrix(t[0])
		if err != nil {
			return nil, err
		}
		device, err := m.backend.NewVector(t[0])
		return &finalNorm{device, host}, err
	}
	p.Set = func(h kernels.Held) {
		m.norm, m.pooled.norm = nil, nil
		if both, made := h.(*finalNorm); made {
			m.norm, m.pooled.norm = both.Vector, both.host
		}
	}
	return p
}

// headParts are the parts of the classification head.
func (s *spec) headParts(to *pooledHead) (parts []store.Part) {
	to.layers = make(pooling.Head, len(s.head))
	for i, l := range s.head {
		if l.relu {
			to.layers[i].After = pooling.ReLU
		}
		parts = append(parts, onHost(set(&to.layers[i].Weight), tensor(l.name+".weight", l.rows, l.in)))
		if l.biased {
			parts = append(parts, onHost(set(&to.layers[i].Bias), tensor(l.name+".bias", l.rows)))
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

func (s *spec) checkPool(a *engine.Ask) *engine.Error {
	switch {
	case a.Pool == engine.PoolNone && s.vectorsOnly:
		return engine.Errorf(engine.CodeBadTokens, "the model has no LM head: it gives vectors and no tokens")
	case a.Head && s.labels() == 0:
		return engine.Errorf(engine.CodeBadTokens, "the model has no classification head")
	case a.Pool > engine.PoolAll || a.Pool != engine.PoolNone && a.PromptLogprobs:
		return engine.Errorf(engine.CodeBadTokens, "pooling %d with prompt logprobs %t is not to be had", a.Pool, a.PromptLogprobs)
	}
	return nil
}

// pooled says that the question is for a vector.
func (q question) pooled() bool { return q.it.pool != nil }

// pool takes rows of the residual stream into their items' vectors, which are complete with the last row.
func (p *Pass) pool(x kernels.Mat, all []question) error {
	m, state := p.m, floatsOf(p.m.work.rowOnHost)
	for i, q := range all {
		row := x.Slice(i, i+1)
		m.backend.Read(p.m.work.rowOnHost, row.Buf, row.Off)
		pooling.RMSNorm(state, m.pooled.norm.Data, m.spec.eps)
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

func notFinite(v float32) bool { return v-v != 0 }

// floatsOf are the numbers in b, which is aligned; the hosts of all backends are little-endian.
func floatsOf(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}
