package host

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/encoder"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/model"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/weights/peft"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// checkpoint is the source of an LLM or an encoder.
type checkpoint struct {
	of     *sources
	config weights.Config
	files  *weights.Checkpoint

	adapters []*peft.Adapter
}

// readCheckpoint opens a checkpoint and finds the tensors that it has in common with others.
func (s *sources) readCheckpoint(ctx context.Context, m Model) (source, error) {
	c, err := weights.ReadConfig(m.Path)
	if err != nil {
		return nil, err
	}
	if s.check != nil {
		if err := s.check(c); err != nil {
			return nil, &OptionError{err}
		}
	}
	files, err := weights.Open(m.Path)
	if err != nil {
		return nil, err
	}
	var progress func(done, total int64)
	if s.loading != nil {
		progress = func(done, total int64) { s.loading(m.Name, done, total) }
	}
	if err := s.catalog.Add(ctx, files, progress); err != nil {
		return nil, fmt.Errorf("%s: %w", m.Path, err)
	}
	opened := &checkpoint{of: s, config: c, files: files}
	return opened, m.Prompts.Adapters.each(func(name, dir string) error {
		a, err := peft.Open(name, dir)
		opened.adapters = append(opened.adapters, a)
		return err
	})
}

func (c *checkpoint) open(h *Host, m Model) (tenant, error) {
	if encoder.IsEncoder(c.config) {
		if c.adapters != nil {
			return nil, fmt.Errorf("%s: adapter %s: adapters are applied to decoders alone, and this is an encoder", m.Path, c.adapters[0].Name)
		}
		return c.openEncoder(h, m)
	}
	options := h.o.Passes
	options.Adapters, options.MaxLen, options.BlockTokens = c.adapters, m.Prompts.MaxLen, m.Prompts.BlockTokens
	if h.o.Loading != nil {
		options.Progress = func(done, total int64) { h.o.Loading(m.Name, done, total) }
	}
	opened, err := model.Open(c.config, c.files, h.store, options)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Path, err)
	}
	l := &llm{Model: opened, share: m.Prompts.CacheShare}
	if h.o.Extra != nil {
		if l.extra, err = h.o.Extra(c.config, opened.Info().Tokens, opened.Plan().Block); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Path, err)
		}
	}
	return l, nil
}

func (c *checkpoint) unchanged(path string) bool {
	config, err := weights.ReadConfig(path)
	changed := slices.ContainsFunc(c.adapters, func(a *peft.Adapter) bool { return a.Current() != nil })
	return err == nil && reflect.DeepEqual(config, c.config) && c.files.Current() == nil && !changed
}

func (c *checkpoint) forget() { c.of.catalog.Remove(c.files) }

// llm is an LLM on the device.
type llm struct {
	*model.Model
	extra int64   // working memory beside its plan's
	share float64 // of the memory for prefix caches
}

func (l *llm) kind() kind { return prompts }

func (l *llm) demand() demand { return demand{plan: l.Plan(), extra: l.extra, share: l.share} }

func (l *llm) use(a *area) error { return l.Use(a.memory.(*model.Workspace)) }

func (l *llm) place(a *area, pages, hostPages int) error {
	err := l.use(a)
	if err == nil {
		err = l.NewPages(pages)
	}
	if err == nil && hostPages > 0 && pages > 0 {
		err = l.NewHostPages(hostPages)
	}
	return err
}

func (l *llm) begin(run *wire.Run) (executor.Pass, error) {
	p, err := l.Begin(run)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// measure does nothing: profiles of LLMs take minutes, and are made by hand.
func (l *llm) measure(*Host, *hosted) (done bool, err error) { return true, nil }

func (l *llm) fields() []zap.Field {
	plan := l.Plan()
	info := l.Info().Tokens
	return []zap.Field{
		zap.Stringer("weights", Mebibytes(plan.Weights)), zap.Stringer("working_set", Mebibytes(plan.Work)),
		zap.Stringer("prefix_cache", Mebibytes(int64(info.NumBlocks)*plan.Block)),
		zap.Stringer("host_memory", Mebibytes(int64(info.HostBlocks)*plan.Block+plan.Host)),
	}
}
