// Package encoder is the forward pass of BERT, RoBERTa, ModernBERT and EmbeddingGemma models over a kernels.Encoders: prompts side by
// side without padding, to vectors of them or to the logits of a classification head.
package encoder

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/prefillonly/prefillonly/engine/model/pace"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/weights/store"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
)

// Source supplies a model's tensors by the names that Hugging Face's checkpoints give them.
// weights.Checkpoint and weights.Random are Sources.
type Source interface {
	store.Source
	// Find says of which type the named tensor is, or why it is not there in this shape.
	Find(name string, shape ...int) (kernels.DType, error)
	// Untaken lists the tensors that were never asked for.
	Untaken() []string
	// Fingerprint identifies the weights.
	Fingerprint() (string, error)
}

// Options bound a model's memory. Zero values mean the defaults.
type Options struct {
	MaxLen    int // longest prompt in tokens; default what the model's positions allow
	ChunkRows int // rows of prompts that go through the model together, about: a longer prompt goes alone; default 512

	Progress func(done, total int64) // called after each matrix with the bytes of tensors; may be nil
}

func (o Options) withDefaults(s *spec) (Options, error) {
	if o.MaxLen == 0 {
		o.MaxLen = s.maxLen
	}
	if o.ChunkRows == 0 {
		o.ChunkRows = 512
	}
	switch {
	case o.MaxLen < 0 || o.MaxLen > s.maxLen:
		return o, fmt.Errorf("maximum length %d is outside 1..%d, which the model's positions allow", o.MaxLen, s.maxLen)
	case o.ChunkRows < 0:
		return o, fmt.Errorf("chunk of %d rows: it may not be negative", o.ChunkRows)
	}
	return o, nil
}

// Model is an encoder of which all, some or none of the weights are on a device. One goroutine uses it at a
// time, that of the store.
type Model struct {
	spec    spec
	opts    Options
	backend kernels.Encoders
	print   string // fingerprint
	weights *store.Weights

	embedding embedding // these are nil while their chunks are not resident
	ropes     []kernels.Rope
	layers    []layer
	final     norm
	head      head

	pace         pace.Pace
	work, lowest workspace // of passes, and of the lowest one
}

// Open describes the model to a store, checked against the source's headers: it has no weights and no working memory
// yet. The source must live as long as the model, and be closed by nobody else.
func Open(config weights.Config, source Source, st *store.Store, opts Options) (*Model, error) {
	b, err := kernels.EncodersOf(st.Backend())
	if err != nil {
		return nil, err
	}
	s, err := newSpec(&config)
	if err != nil {
		return nil, err
	}
	if opts, err = opts.withDefaults(&s); err != nil {
		return nil, err
	}
	m := &Model{spec: s, opts: opts, backend: b, ropes: make([]kernels.Rope, len(s.freqs)), layers: make([]layer, s.layers)}
	chunks, err := m.findChunks(source)
	if err != nil {
		return nil, err
	}
	print, err := source.Fingerprint()
	if err != nil {
		return nil, errors.Join(err, source.Close())
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%v", s))
	m.print = fmt.Sprintf("%s-%x", print, sum[:8])
	m.weights = st.Weights(source, chunks)
	m.weights.Progress = opts.Progress
	return m, source.Close()
}

// Chunks lists what can be loaded and dropped: the embedding, each layer, and what comes after them.
func (m *Model) Chunks() []store.Info { return m.weights.Chunks() }

// LoadChunk makes a chunk resident; passes of other models may be open meanwhile. After an error it is not.
func (m *Model) LoadChunk(i int) error { return m.weights.Load(i) }

// DropChunk gives a chunk's memory back, but for what other models use. No pass of the model may be open.
func (m *Model) DropChunk(i int) { m.weights.Drop(i) }

// Ready says whether all chunks are resident, and there is memory to compute in: passes may begin.
func (m *Model) Ready() bool { return m.work.x.Buf != nil && m.weights.Ready() }

// Close frees all the model holds. Passes must be closed before.
func (m *Model) Close() {
	m.work, m.lowest = workspace{}, workspace{}
	m.weights.DropAll()
}

// Weights is what all chunks take, and Staged the host memory that tensors take on their way, in bytes.
func (m *Model) Weights() int64 { return m.weights.Bytes() }

// Staged is the host memory that tensors are read into on their way, at the most.
func (m *Model) Staged() int64 { return m.weights.Staged() }

// passRows is how many rows a pass may have: some chunks, each of which is at least about half full. More would only
// hold back the answers of the first ones.
const passRows = 8192

// Info describes what the model can run; its name, its weights and when they may be dropped are the caller's.
func (m *Model) Info() wire.ModelInfo {
	return wire.ModelInfo{
		Fingerprint: m.print,
		Tokens: &wire.TokenLimits{
			VocabSize:   m.spec.vocab,
			MaxModelLen: m.opts.MaxLen,
			BlockTokens: blockTokens,
			MaxPassRows: max(passRows, m.opts.MaxLen),
			Hidden:      m.spec.hidden,
			Labels:      m.spec.head.labels,
			VectorsOnly: true,
		},
	}
}
