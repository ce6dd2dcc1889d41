package host

import (
	"context"
	"sync"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/dnn"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/weights/catalog"
)

// sources reads what models are, and which of their weights are equal. Its methods may be called by several
// goroutines.
type sources struct {
	catalog *catalog.Catalog
	check   func(weights.Config) error
	loading func(model string, done, total int64)

	mu    sync.Mutex
	ahead map[Model]source
}

// read opens a model's files.
func (s *sources) read(ctx context.Context, m Model) (source, error) {
	if file, ok := dnn.File(m.Path); ok {
		return s.readNetwork(file, m)
	}
	return s.readCheckpoint(ctx, m)
}

// takeSource is what was read ahead of a model, or is read now.
func (s *sources) takeSource(m Model) (source, error) {
	s.mu.Lock()
	found, ok := s.ahead[m]
	delete(s.ahead, m)
	s.mu.Unlock()
	if ok {
		if found.unchanged(m.Path) {
			return found, nil
		}
		found.forget()
	}
	return s.read(context.Background(), m)
}

// clearAhead forgets what was read ahead and not taken.
func (s *sources) clearAhead() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, old := range s.ahead {
		old.forget()
	}
	s.ahead = nil
}

// unread is what was found ahead of a model whose files cannot be read: the reason, so that the device does not wait for
// it to be found again.
type unread struct{ err error }

func (u unread) open(*Host, Model) (tenant, error) { return nil, u.err }
func (unread) unchanged(string) bool               { return true }
func (unread) forget()                             {}

// Ahead reads what models are, and plans networks, so that SetModels, which the device waits for, need not: it may take as long as
// reading those whose weights are much alike. It may be called by any goroutine, and ends with ctx; an error is
// for SetModels to tell.
func (h *Host) Ahead(ctx context.Context, models []Model) {
	h.sources.clearAhead()
	read := map[Model]source{}
	for _, m := range models {
		if found, err := h.sources.read(ctx, m); err == nil {
			if n, ok := found.(*networkFile); ok {
				n.Plan(h.o.Backend)
			}
			read[m] = found
		} else {
			h.o.Log.Warn("model not read", zap.String("model", m.Name), zap.Error(err))
			read[m] = unread{err}
		}
	}
	h.sources.mu.Lock()
	defer h.sources.mu.Unlock()
	h.sources.ahead = read
}
