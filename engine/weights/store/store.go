// Package store keeps packed weights on a device, each once however many models use it, and loads and
// drops the weights of a model in chunks.
package store

import (
	"crypto/sha256"
	"fmt"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
)

// Key identifies what a backend makes of tensors by their content and by how it is made: what has one key
// is there once.
type Key [sha256.Size]byte

// Store is what a backend holds of weights. One goroutine uses it, that of the backend.
type Store struct {
	backend kernels.Backend
	entries map[Key]*entry
	bytes   int64
}

// entry is something held, with its users.
type entry struct {
	held  kernels.Held
	bytes int64
	users int
	freed func() // called after held was freed; may be nil
}

// New returns an empty store of b's, which the caller closes after the last model.
func New(b kernels.Backend) *Store {
	return &Store{backend: b, entries: map[Key]*entry{}}
}

// Backend is where the weights are.
func (s *Store) Backend() kernels.Backend { return s.backend }

// Bytes is what all weights take, those that are used in their files included.
func (s *Store) Bytes() int64 { return s.bytes }

// acquireEntry returns what has this key with a user more, and makes it if there is none.
func (s *Store) acquireEntry(key Key, build func() (*entry, error)) (*entry, error) {
	e := s.entries[key]
	if e == nil {
		var err error
		if e, err = build(); err != nil {
			return nil, err
		}
		s.entries[key] = e
		s.bytes += e.bytes
	}
	e.users++
	return e, nil
}

// releaseEntry takes a user away, and with the last one what has this key.
func (s *Store) releaseEntry(key Key) {
	e := s.entries[key]
	if e.users--; e.users > 0 {
		return
	}
	delete(s.entries, key)
	s.bytes -= e.bytes
	e.held.Free()
	if e.freed != nil {
		e.freed()
	}
}

// Tensor is a tensor of a checkpoint.
type Tensor struct {
	Name  string
	Shape []int
	Bytes int64 // in the checkpoint
}

// Part is what a backend makes of tensors: a packed matrix, a table, a vector.
type Part struct {
	Kind    string // how it is made; parts of one kind and of equal tensors are one
	Tensors []Tensor
	InPlace bool  // the backend may use a tensor's own memory, and holds 0 bytes then
	Bytes   int64 // it is expected to take, on each rank where there are several

	Make func(t []kernels.HostTensor) (kernels.Held, error)
	Set  func(kernels.Held) // is given what was made, and nil before it is dropped
}

// contentKey is made of the IDs that the tensors have now.
func (p *Part) contentKey(source Source) Key {
	h := sha256.New()
	fmt.Fprintf(h, "%q", p.Kind)
	for _, t := range p.Tensors {
		fmt.Fprintf(h, " %v %x", t.Shape, source.ID(t.Name))
	}
	return Key(h.Sum(nil))
}

// Source is where tensors come from. weights.Checkpoint and weights.Random are Sources.
type Source interface {
	// Tensor returns the named tensor, or says why it is not there in this shape.
	Tensor(name string, shape ...int) (kernels.HostTensor, error)
	// Release says that the backend has copied the tensor.
	Release(kernels.HostTensor)
	// Ahead says that the named tensor is wanted next.
	Ahead(name string)
	// ID identifies the named tensor's content.
	ID(name string) weights.ID
	// Unchanged says whether all tensors since the last Close are those that were meant.
	Unchanged() error
	// Close lets go of all tensors, until they are asked for anew.
	Close() error
}
