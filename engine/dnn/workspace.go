package dnn

import (
	"fmt"

	"github.com/prefillonly/prefillonly/kernels"
)

// Workspace is the memory that passes of networks compute in. Models of one backend share it: of two areas, as large as
// the largest of them needs, one is for the pass that runs, and one for a pass that is nested into it.
type Workspace struct {
	bytes   int64 // of each area
	areas   [areas]kernels.Buffer
	running [areas]any // the *Pass that has an item half computed there, or *Timed
}

const (
	ownArea    = iota // of a pass that is begun as others are
	nestedArea        // of one that is nested
	areas
)

// NewWorkspace takes so much memory, for both areas.
func NewWorkspace(b kernels.Backend, bytes int64) (*Workspace, error) {
	w := &Workspace{bytes: bytes / areas}
	for i := range w.areas {
		var err error
		if w.areas[i], err = b.Alloc(max(w.bytes, 64)); err != nil {
			w.Free()
			return nil, fmt.Errorf("working memory of networks: allocate %d bytes: %w", w.bytes, err)
		}
	}
	return w, nil
}

// Free gives the memory back. No model may use it any more.
func (w *Workspace) Free() {
	for i, buf := range w.areas {
		if buf != nil {
			buf.Free()
			w.areas[i] = nil
		}
	}
}

// WorkBytes is what passes of the model compute in, both areas of a Workspace together.
func (m *Model) WorkBytes() int64 { return areas * m.plans.limit }

// Use lets the model's passes compute in w, which must be enough for WorkBytes. No pass may be open.
func (m *Model) Use(w *Workspace) error {
	if w.bytes < m.plans.limit {
		return fmt.Errorf("working memory of %d bytes is not enough for a network that takes %d", areas*w.bytes, m.WorkBytes())
	}
	m.plans.unbind()
	m.work = w
	return nil
}
