// Package model is the forward pass of Llama, Mistral and Qwen models over a kernels.Backend: layer
// by layer over whole prompts, in chunks of rows, with logits only where they are asked for.
package model

import (
	"errors"
	"fmt"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
)

// Source supplies a model's tensors by the names that Hugging Face's checkpoints give them.
// weights.Checkpoint and weights.Random are Sources.
type Source interface {
	// Tensor returns the named tensor, or says why it is not there in this shape.
	Tensor(name string, shape ...int) (kernels.HostTensor, error)
	// Release says that the backend has copied the tensor.
	Release(kernels.HostTensor)
	// Untaken lists the tensors that were never asked for.
	Untaken() []string
	// Ahead says that the tensors whose names begin with prefix are wanted next.
	Ahead(prefix string)
	// Bytes is the size of all tensors; 0 where it is not known.
	Bytes() int64
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

	Working  func()                  // called between the chunks of a layer, which may take long; may be nil
	Progress func(done, total int64) // called after each matrix with the bytes of tensors; total is 0 where it is not known; may be nil
}

func (o Options) withDefaults(s *spec) (Options, error) {
	def := func(field *int, value int) {
		if *field == 0 {
			*field = value
		}
	}
	def(&o.MaxLen, s.maxLen)
	def(&o.ChunkRows, 512)
	def(&o.BlockTokens, 64)
	def(&o.MaxItems, 64)
	def(&o.SpareRows, o.MaxLen)
	switch {
	case o.MaxLen < 0 || o.MaxLen > s.maxLen:
		return o, fmt.Errorf("maximum length %d is outside 1..%d, the model's max_position_embeddings", o.MaxLen, s.maxLen)
	case o.BlockTokens < 0 || o.BlockTokens%16 != 0:
		return o, fmt.Errorf("block size %d is not a positive multiple of 16 tokens", o.BlockTokens)
	case o.ChunkRows < 0 || o.MaxItems < 0 || o.SpareRows < 0 || o.ResidentRows < 0:
		return o, fmt.Errorf("chunk of %d rows, %d items, %d spare rows, %d resident ones: none may be negative", o.ChunkRows, o.MaxItems, o.SpareRows, o.ResidentRows)
	}
	return o, nil
}

// Model is a loaded model with its working memory. One goroutine uses it at a time.
type Model struct {
	spec    spec
	opts    Options
	backend kernels.Backend
	print   string // fingerprint
	close   []func()

	table   kernels.Table
	head    kernels.Table // the same as table where tied
	norm    kernels.Vector
	rope    kernels.Rope
	layers  []layer // all but the last
	last    lastLayer
	weights int64 // bytes of the above

	work  workspace
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
	m, err := New(config, checkpoint, b, opts)
	if err != nil {
		return nil, errors.Join(err, checkpoint.Close())
	}
	// Backends may keep looking rows up in the mapping, so it closes last.
	m.close = append([]func(){func() { _ = checkpoint.Close() }}, m.close...)
	return m, nil
}

// New builds the model that config describes out of source's tensors, with working memory for
// prompts of up to opts.MaxLen tokens and no pages. The source must live as long as the model.
func New(config weights.Config, source Source, b kernels.Backend, opts Options) (*Model, error) {
	s, err := newSpec(&config)
	if err != nil {
		return nil, err
	}
	if opts, err = opts.withDefaults(&s); err != nil {
		return nil, err
	}
	m := &Model{spec: s, opts: opts, backend: b}
	if err := m.load(source); err != nil {
		m.Close()
		return nil, err
	}
	if err := m.work.alloc(b, &m.spec, opts); err != nil {
		m.Close()
		return nil, fmt.Errorf("working memory: %w", err)
	}
	m.pages.bytes = b.KVBlockBytes(s.heads, opts.BlockTokens)
	print, err := source.Fingerprint()
	if err != nil {
		m.Close()
		return nil, err
	}
	m.print = print + "-" + s.digest()
	return m, nil
}

// Close frees all the model holds. Passes must be closed before.
func (m *Model) Close() {
	m.freeHost()
	m.pages.free()
	m.work.free(m.backend)
	for i := len(m.close) - 1; i >= 0; i-- {
		m.close[i]()
	}
	m.close = nil
}

// Info describes what the model can run; the served name and the cost model are the caller's.
func (m *Model) Info() wire.ExecutorInfo {
	return wire.ExecutorInfo{
		Device:      m.backend.Name(),
		Fingerprint: m.print,
		VocabSize:   m.spec.vocab,
		MaxModelLen: m.opts.MaxLen,
		BlockTokens: m.opts.BlockTokens,
		NumBlocks:   m.pages.count,
		HostBlocks:  m.host.count,
		CostLoad:    m.host.load,
		MaxPassRows: m.opts.MaxLen,
		CanPause:    true,
		CopiesParts: true,
		Layers:      len(m.layers) + 1,
	}
}
