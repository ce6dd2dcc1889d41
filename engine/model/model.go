// Package model is the forward pass of decoders (Llama and the families like it) over a kernels.Backend: layer
// by layer over whole prompts, in chunks of rows, with logits only where they are asked for.
package model

import (
	"errors"
	"fmt"

	"github.com/prefillonly/prefillonly/engine/model/architecture"
	"github.com/prefillonly/prefillonly/engine/model/pace"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/weights/peft"
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
	MaxLen      int // longest sequence in tokens; default max_position_embeddings
	ChunkRows   int // rows that go through a layer's matrices at a time; default 512
	BlockTokens int // tokens in a KV block, a multiple of 16; default 64
	MaxItems    int // items in one pass; default 64
	SpareRows   int // rows of passes that run while a longest one is paused; default MaxLen
	// ResidentRows is how many rows of all these the device holds the residual streams of; those of the others
	// are in host memory, of a kernels.Offloader, and come a chunk at a time. 0: all.
	ResidentRows int

	Adapters []*peft.Adapter // that items may name, on a backend that is a kernels.LowRanks

	Progress func(done, total int64) // called after each matrix with the bytes of tensors; may be nil
}

func (o Options) withDefaults(s *architecture.Spec) (Options, error) {
	def := func(field *int, value int) {
		if *field == 0 {
			*field = value
		}
	}
	def(&o.MaxLen, s.MaxLen)
	def(&o.ChunkRows, 512)
	def(&o.BlockTokens, 64)
	def(&o.MaxItems, 64)
	def(&o.SpareRows, o.MaxLen)
	switch {
	case o.MaxLen < 0 || o.MaxLen > s.MaxLen:
		return o, fmt.Errorf("maximum length %d is outside 1..%d, the model's max_position_embeddings", o.MaxLen, s.MaxLen)
	case o.BlockTokens < 0 || o.BlockTokens%16 != 0:
		return o, fmt.Errorf("block size %d is not a positive multiple of 16 tokens", o.BlockTokens)
	case o.ChunkRows < 0 || o.MaxItems < 0 || o.SpareRows < 0 || o.ResidentRows < 0:
		return o, fmt.Errorf("chunk of %d rows, %d items, %d spare rows, %d resident ones: none may be negative", o.ChunkRows, o.MaxItems, o.SpareRows, o.ResidentRows)
	}
	return o, nil
}

// Model is a model of which all, some or none of the weights are on a device. One goroutine uses it at a
// time, that of the store.
type Model struct {
	spec    architecture.Spec
	opts    Options
	backend kernels.Backend
	experts kernels.Mixtures // the backend, if layers have experts
	print   string           // fingerprint
	weights *store.Weights

	table  kernels.Table // these are nil while their chunks are not resident
	head   kernels.Table // the same as table where tied
	norm   kernels.Norm
	pooled pooledHead
	ropes  []kernels.Rope // by the spec's rotations
	layers []layer        // all but the last
	last   lastLayer

	lowRank int // the largest of the adapters' for a packed matrix

	pace  pace.Pace
	work  workspace
	own   *Workspace // that the model frees; nil where it uses another's
	pages pages
	host  hostPages
}

// Load opens the checkpoint in dir and builds the model on b, which the caller closes after the model.
func Load(dir string, b kernels.Backend, opts Options) (*Model, error) {
	config, err := weights.ReadConfig(dir)
	if err != nil {
		return nil, err
	}
	checkpoint, err := weights.Open(dir)
	if err != nil {
		return nil, err
	}
	return New(config, checkpoint, b, opts)
}

// New builds the model that config describes out of source's tensors, with a store and working memory of
// its own, for prompts of up to opts.MaxLen tokens, and no pages.
func New(config weights.Config, source Source, b kernels.Backend, opts Options) (*Model, error) {
	m, err := Open(config, source, store.New(b), opts)
	if err != nil {
		return nil, err
	}
	if err := m.LoadAll(); err != nil {
		return nil, err
	}
	if m.own, err = NewWorkspace(b, m.Plan()); err == nil {
		err = m.Use(m.own)
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// Open describes the model to a store, checked against the source's headers: it has no weights, pages or
// working memory yet. The source must live as long as the model, and be closed by nobody else.
func Open(config weights.Config, source Source, st *store.Store, opts Options) (*Model, error) {
	m, err := describeModel(config, st.Backend(), opts)
	if err == nil {
		err = m.findTrunk(config, source)
	}
	if err != nil {
		return nil, err
	}
	if err := m.checkAdapters(); err != nil {
		return nil, err
	}
	chunks := m.weightChunks()
	if err := m.checkTensors(source, chunks); err != nil {
		return nil, err
	}
	print, err := source.Fingerprint()
	if err != nil {
		return nil, errors.Join(err, source.Close())
	}
	m.print = print + "-" + m.spec.Digest() + m.print
	m.weights = st.Weights(source, chunks)
	m.weights.Progress = opts.Progress
	return m, source.Close()
}

// describeModel is a model of which the configuration alone is known.
func describeModel(config weights.Config, b kernels.Backend, opts Options) (*Model, error) {
	s, err := architecture.New(&config)
	if err != nil {
		return nil, err
	}
	if opts, err = opts.withDefaults(&s); err != nil {
		return nil, err
	}
	if r, ok := b.(severalRanks); ok && r.Ranks() > 1 && s.WholeQKNorm {
		return nil, fmt.Errorf("%d ranks cannot share norms of queries and keys over all heads together: want 1", r.Ranks())
	}
	var experts kernels.Mixtures
	if s.Mixture.Experts > 0 {
		if experts, err = kernels.MixturesOf(b); err != nil {
			return nil, err
		}
	}
	return &Model{
		spec: s, opts: opts, backend: b, experts: experts,
		layers: make([]layer, s.Layers-1),
		pages:  pages{bytes: b.KVBlockBytes(s.Heads, opts.BlockTokens)},
	}, nil
}

// Chunks lists what can be loaded and dropped: the embedding, each layer, and what comes after them.
func (m *Model) Chunks() []store.Info { return m.weights.Chunks() }

// LoadChunk makes a chunk resident; passes of other models may be open meanwhile. After an error it is not.
func (m *Model) LoadChunk(i int) error { return m.weights.Load(i) }

// LoadAll makes all chunks resident. After an error none is that was not before.
func (m *Model) LoadAll() error { return m.weights.LoadAll() }

// DropChunk gives a chunk's memory back, but for what other models use. No pass of the model may be open.
func (m *Model) DropChunk(i int) { m.weights.Drop(i) }

// Ready says whether all chunks are resident, and there is memory to compute in: passes may begin.
func (m *Model) Ready() bool { return m.work.scratch != nil && m.weights.Ready() }

// Close frees all the model holds; it can be loaded again. Passes must be closed before.
func (m *Model) Close() {
	m.freeHost()
	m.pages.freeBuffer()
	if m.work = (workspace{}); m.own != nil {
		m.own.Free()
		m.own = nil
	}
	m.weights.DropAll()
}

// Info describes what the model can run; its name, its weights and when they may be dropped are the caller's.
func (m *Model) Info() wire.ModelInfo {
	return wire.ModelInfo{
		Fingerprint: m.print,
		Cost:        wire.Cost{Load: m.host.load},
		Tokens: &wire.TokenLimits{
			VocabSize:   m.spec.Vocab,
			MaxModelLen: m.opts.MaxLen,
			BlockTokens: m.opts.BlockTokens,
			NumBlocks:   m.pages.count,
			HostBlocks:  m.host.count,
			MaxPassRows: m.opts.MaxLen,
			CopiesParts: true,
			Hidden:      m.spec.Hidden,
			Labels:      m.spec.Labels(),
			VectorsOnly: m.spec.VectorsOnly,
		},
	}
}
