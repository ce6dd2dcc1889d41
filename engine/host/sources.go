package host

import (
	"context"
	"fmt"
	"sync"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/weights/catalog"
)

// source is what a model's files say of it.
type source struct {
	config     weights.Config
	checkpoint *weights.Checkpoint
}

// sources reads what models are, and which of their weights are equal. Its methods may be called by several
// goroutines.
type sources struct {
	catalog *catalog.Catalog
	check   func(weights.Config) error
	loading func(model string, done, total int64)

	mu    sync.Mutex
	ahead map[Model]source
}

// read opens a checkpoint and finds the tensors that it has in common with others.
func (s *sources) read(ctx context.Context, m Model) (source, error) {
	c, err := weights.ReadConfig(m.Dir)
	if err != nil {
		return source{}, err
	}
	if s.check != nil {
		if err := s.check(c); err != nil {
			return source{}, &OptionError{err}
		}
	}
	checkpoint, err := weights.Open(m.Dir)
	if err != nil {
		return source{}, err
	}
	var progress func(done, total int64)
	if s.loading != nil {
		progress = func(done, total int64) { s.loading(m.Name, done, total) }
	}
	if err := s.catalog.Add(ctx, checkpoint, progress); err != nil {
		return source{}, fmt.Errorf("%s: %w", m.Dir, err)
	}
	return source{c, checkpoint}, nil
}

// take is what was read ahead of a model, or is read now.
func (s *sources) take(m Model) (source, error) {
	s.mu.Lock()
	found, ok := s.ahead[m]
	delete(s.ahead, m)
	s.mu.Unlock()
	if ok && found.checkpoint.Current() == nil {
		return found, nil
	}
	s.forget(found)
	return s.read(context.Background(), m)
}

// forget says that a model's weights are not to be compared with others any more.
func (s *sources) forget(old source) {
	if old.checkpoint != nil {
		s.catalog.Remove(old.checkpoint)
	}
}

// clear forgets what was read ahead and not taken.
func (s *sources) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, old := range s.ahead {
		s.forget(old)
	}
	s.ahead = nil
}

// Ahead reads what models are, so that SetModels, which the device waits for, need not: it may take as long as
// reading those whose weights are much alike. It may be called by any goroutine, and ends with ctx; an error is
// for SetModels to find.
func (h *Host) Ahead(ctx context.Context, models []Model) {
	h.sources.clear()
	read := map[Model]source{}
	for _, m := range models {
		if found, err := h.sources.read(ctx, m); err == nil {
			read[m] = found
		} else {
			h.o.Log.Warn("model not read", zap.String("model", m.Name), zap.Error(err))
		}
	}
	h.sources.mu.Lock()
	defer h.sources.mu.Unlock()
	h.sources.ahead = read
}
