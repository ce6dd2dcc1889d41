package store

import (
	"crypto/sha256"
	"fmt"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
)

// Chunk is the parts that are loaded and dropped together.
type Chunk struct {
	Name  string
	Parts []Part
}

// Info describes a chunk of a model.
type Info struct {
	Name     string
	Key      Key   // chunks of one key, of one model or several, are the same memory
	Bytes    int64 // as expected, and since it was first loaded as it is
	Resident bool
	Parts    []PartInfo
}

// PartInfo describes a part of a chunk, which models may have in common when they have not all of it.
type PartInfo struct {
	Kind    string
	Key     Key
	Bytes   int64 // as Info has it
	Tensors []Tensor
}

// Weights are one model's weights, of which some chunks are in a store. Its goroutine is the store's.
type Weights struct {
	// Progress is called after each part of a load with the bytes of tensors in the store; may be nil.
	Progress func(done, total int64)

	store       *Store
	source      Source
	chunks      []chunk
	stage       weights.Stage
	done, total int64 // bytes of the source's tensors: in the store, and all
	uses        int   // of the source's memory, by loads and by parts in place
}

type chunk struct {
	Chunk
	key      Key
	keys     []Key // of the parts
	resident bool
}

func (c *chunk) totalBytes() int64 {
	var sum int64
	for i := range c.Parts {
		sum += c.Parts[i].Bytes
	}
	return sum
}

// Weights describes a model to the store; none of it is loaded. The source's IDs must be settled.
func (s *Store) Weights(source Source, chunks []Chunk) *Weights {
	w := &Weights{store: s, source: source}
	for _, described := range chunks {
		c, h := chunk{Chunk: described}, sha256.New()
		for i := range c.Parts {
			p := &c.Parts[i]
			key := p.contentKey(source)
			h.Write(key[:])
			c.keys = append(c.keys, key)
			for _, t := range p.Tensors {
				w.total += t.Bytes
			}
		}
		c.key = Key(h.Sum(nil))
		w.chunks = append(w.chunks, c)
	}
	return w
}

// Chunks lists the chunks in the order in which they are to be loaded.
func (w *Weights) Chunks() []Info {
	list := make([]Info, len(w.chunks))
	for i := range w.chunks {
		c := &w.chunks[i]
		list[i] = Info{Name: c.Name, Key: c.key, Bytes: c.totalBytes(), Resident: c.resident}
		for j, p := range c.Parts {
			list[i].Parts = append(list[i].Parts, PartInfo{p.Kind, c.keys[j], p.Bytes, p.Tensors})
		}
	}
	return list
}

// Ready says whether all chunks are resident.
func (w *Weights) Ready() bool {
	for i := range w.chunks {
		if !w.chunks[i].resident {
			return false
		}
	}
	return true
}

// Bytes is what all chunks take, whether resident or not. What other models share is counted.
func (w *Weights) Bytes() int64 {
	var sum int64
	for i := range w.chunks {
		sum += w.chunks[i].totalBytes()
	}
	return sum
}

// Staged is the host memory that tensors are read into on their way, at the most.
func (w *Weights) Staged() (most int64) {
	if w.hasFileReader() {
		return 0
	}
	for i := range w.chunks {
		for _, p := range w.chunks[i].Parts {
			var bytes int64
			for _, t := range p.Tensors {
				bytes += t.Bytes
			}
			if !p.InPlace {
				most = max(most, bytes)
			}
		}
	}
	return most
}

// Load loads one chunk, of which parts may be there already.
func (w *Weights) Load(i int) error { return w.load(i, i+1) }

// LoadAll loads all chunks: beside what is packed already, no more than one part is in host memory.
func (w *Weights) LoadAll() error { return w.load(0, len(w.chunks)) }

// load loads chunks [from, to), or none.
func (w *Weights) load(from, to int) error {
	w.uses++
	defer w.releaseSource()
	defer w.stage.Free()
	var loaded []int
	err := func() error {
		for i := from; i < to; i++ {
			if w.chunks[i].resident {
				continue
			}
			if i+1 < len(w.chunks) {
				w.readAhead(&w.chunks[i+1])
			}
			if err := w.acquireChunk(&w.chunks[i]); err != nil {
				return err
			}
			loaded = append(loaded, i)
		}
		if loaded == nil {
			return nil
		}
		return w.source.Unchanged()
	}()
	if failed := w.store.backend.Sync(); err == nil {
		err = failed
	}
	if err != nil {
		for _, i := range loaded {
			w.Drop(i)
		}
	}
	return err
}

// releaseSource closes the source when nothing uses its memory.
func (w *Weights) releaseSource() {
	if w.uses--; w.uses == 0 {
		_ = w.source.Close() // nothing was written
	}
}

// readAhead lets the source read what is to be loaded next.
func (w *Weights) readAhead(c *chunk) {
	if c.resident {
		return
	}
	for i := range c.Parts {
		if w.store.entries[c.keys[i]] != nil {
			continue
		}
		for _, t := range c.Parts[i].Tensors {
			w.source.Ahead(t.Name)
		}
	}
}

// acquireChunk makes all parts of a chunk resident, or none.
func (w *Weights) acquireChunk(c *chunk) error {
	for i := range c.Parts {
		p := &c.Parts[i]
		e, err := w.store.acquireEntry(c.keys[i], func() (*entry, error) { return w.buildPart(p) })
		if err != nil {
			w.release(c, i)
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		p.Set(e.held)
		p.Bytes = e.bytes
		for _, t := range p.Tensors {
			w.done += t.Bytes
		}
		if w.Progress != nil {
			w.Progress(w.done, w.total)
		}
	}
	c.resident = true
	return nil
}

// Drop lets go of a chunk: what no other model uses is freed.
func (w *Weights) Drop(i int) {
	if c := &w.chunks[i]; c.resident {
		w.release(c, len(c.Parts))
		c.resident = false
	}
}

// DropAll is Drop of every chunk.
func (w *Weights) DropAll() {
	for i := range w.chunks {
		w.Drop(i)
	}
}

// release lets go of the first n parts of a chunk.
func (w *Weights) release(c *chunk, n int) {
	for i := range n {
		c.Parts[i].Set(nil)
		w.store.releaseEntry(c.keys[i])
		for _, t := range c.Parts[i].Tensors {
			w.done -= t.Bytes
		}
	}
}

// fileReader is a backend that reads tensors from their files itself, on their way to a device.
type fileReader interface{ ReadsFiles() bool }

// hasFileReader says that the backend does.
func (w *Weights) hasFileReader() bool {
	b, ok := w.store.backend.(fileReader)
	return ok && b.ReadsFiles()
}

// buildPart makes a part out of its tensors, which the source may then release unless they are used in place.
func (w *Weights) buildPart(p *Part) (*entry, error) {
	tensors := make([]kernels.HostTensor, len(p.Tensors))
	for i, t := range p.Tensors {
		var err error
		if tensors[i], err = w.source.Tensor(t.Name, t.Shape...); err != nil {
			return nil, err
		}
	}
	staged, err := w.stageTensors(p, tensors)
	if err != nil {
		return nil, err
	}
	held, err := p.Make(staged)
	if err != nil {
		return nil, err
	}
	e := &entry{held: held, bytes: held.Bytes()}
	if p.InPlace && e.bytes == 0 {
		w.uses++
		e.freed = func() {
			w.releaseTensors(tensors)
			w.releaseSource()
		}
		for _, t := range tensors {
			e.bytes += int64(len(t.Data))
		}
		return e, nil
	}
	w.releaseTensors(tensors)
	return e, nil
}

func (w *Weights) releaseTensors(tensors []kernels.HostTensor) {
	for _, t := range tensors {
		w.source.Release(t)
	}
}

// stageTensors puts tensors into memory for a backend that wants them there, and reads through what may be used
// in its mapping from now on.
func (w *Weights) stageTensors(p *Part, tensors []kernels.HostTensor) ([]kernels.HostTensor, error) {
	if w.hasFileReader() {
		return tensors, nil
	}
	if !p.InPlace {
		return w.stage.Read(tensors...)
	}
	for _, t := range tensors {
		if err := weights.Check(t); err != nil {
			return nil, err
		}
	}
	return tensors, nil
}
