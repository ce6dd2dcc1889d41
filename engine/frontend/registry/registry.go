// Package registry is the models of the pool that requests may name, and what their texts are read and written with.
package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/checkpoint"
	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
	"github.com/prefillonly/prefillonly/engine/images"
	"github.com/prefillonly/prefillonly/engine/speech"
	"github.com/prefillonly/prefillonly/engine/text"
)

// Model is a model of the pool that requests may name.
type Model struct {
	Name     string   // the pool's, and the requests'
	Names    []string // others that requests may use
	Adapters []string // of its weights: names that requests may use for the model with one
	Always   bool     // the server is not ready without it
	// Open opens what the model's texts are read and written with, when a request needs it; it is closed when many
	// others were needed since. Nil: the model takes no text.
	Open       func() (*text.Text, error)
	Checkpoint *checkpoint.Model // what the model is for; nil: not known
	Image      images.Options    // how the model's pictures become its input
	// Models of equal TextKey share what one of them opens, also with those of an earlier Set; an empty one is the
	// model's own until the next.
	TextKey  string
	Pipeline *Pipeline // that the model is; nil: it is one network or checkpoint
}

// Pipeline is a model of networks with work between them.
type Pipeline struct {
	Kind     string            // as the configuration calls it
	Endpoint string            // that it is asked at
	Networks map[string]string // the pool's names, by the keys of the configuration
	Alphabet func() ([]string, error)
	Sound    func() (speech.Settings, error) // that the network of speech takes
}

// pool is what runs the models.
type pool interface {
	// Abandon ends all open jobs of a model with an error.
	Abandon(model string, why *engine.Error)
}

// Registry is the models that are served. Its methods are safe for concurrent use.
type Registry struct {
	pool  pool
	log   *zap.Logger
	texts *cache[string, *text.Text]
	now   atomic.Pointer[models]
	sets  atomic.Int64 // of models so far
}

// New makes a Registry without models. So many tokenizers stay open while nobody uses them.
func New(tokenizers int, pool pool, log *zap.Logger) *Registry {
	return &Registry{pool: pool, log: log, texts: newCache[string](tokenizers, closeText)}
}

func closeText(t *text.Text) {
	if t.Close != nil {
		t.Close()
	}
}

// models are those that are served at a time.
type models struct {
	list   []*Model
	byName map[string]*Model // by every name
}

func (m *models) modelNames() []string {
	list := make([]string, len(m.list))
	for i := range list {
		list[i] = m.list[i].Name
	}
	return list
}

// All are the models.
func (g *Registry) All() []*Model { return g.now.Load().list }

// Names are those of the models, in the pool.
func (g *Registry) Names() []string { return g.now.Load().modelNames() }

// Aliases are all names that requests may use.
func (g *Registry) Aliases() []string { return slices.Sorted(maps.Keys(g.now.Load().byName)) }

// Named is the model that is served under a name; nil if none is.
func (g *Registry) Named(name string) *Model { return g.now.Load().byName[name] }

// Set puts others in the place of the models that are served. Requests on their way go on with theirs, but
// those of a model that is served no longer are refused.
func (g *Registry) Set(served []Model) error {
	if len(served) == 0 {
		return errors.New("no model is to be served")
	}
	set, number := &models{byName: map[string]*Model{}}, g.sets.Add(1)
	for _, m := range served {
		if m.TextKey == "" {
			m.TextKey = fmt.Sprintf("%s of set %d", m.Name, number)
		}
		set.list = append(set.list, &m)
		for _, name := range slices.Concat([]string{m.Name}, m.Names, m.Adapters) {
			switch other := set.byName[name]; {
			case name == "":
				return errors.New("no served model name is given")
			case other != nil && other != &m:
				return fmt.Errorf("the models %s and %s are both to be served as %s", other.Name, m.Name, name)
			}
			set.byName[name] = &m
		}
	}
	before := g.now.Swap(set)
	if before == nil {
		return nil
	}
	for _, m := range before.list {
		if !slices.Contains(set.modelNames(), m.Name) {
			g.pool.Abandon(m.Name, engine.Errorf(engine.CodeUnavailable, "model %q was taken out of the server's configuration", m.Name))
		}
	}
	return nil
}

// Find is the model that a request names. The empty name is that of the only one there is.
func (g *Registry) Find(x *exchange.Exchange, name string) (*Model, *exchange.Refusal) {
	set := g.now.Load()
	m := set.byName[name]
	switch {
	case m != nil:
	case name != "":
		return nil, exchange.UnknownModel(name)
	case len(set.list) > 1:
		return nil, exchange.Invalid(api.Invalid("model", "the request names no model, and the server has %d; name one of those that /v1/models lists", len(set.list)))
	default:
		m = set.list[0]
	}
	x.Model = m.Name
	return m, nil
}

// Pipeline is the model of some kind that a request names, or the only one of that kind.
func (g *Registry) Pipeline(x *exchange.Exchange, kind, name string) (*Model, *exchange.Refusal) {
	var names []string
	for _, m := range g.All() {
		if m.Pipeline != nil && m.Pipeline.Kind == kind {
			names = append(names, m.Name)
		}
	}
	if name == "" && len(names) == 1 {
		name = names[0]
	}
	m, refused := g.Find(x, name)
	switch {
	case refused != nil:
		return nil, refused
	case m.Pipeline != nil && m.Pipeline.Kind == kind:
		return m, nil
	case names == nil:
		return nil, exchange.Invalid(api.Invalid("model", "the model `%s` has no `pipeline: %s`, and no other model of the server has", m.Name, kind))
	}
	return nil, exchange.Invalid(api.Invalid("model", "the model `%s` has no `pipeline: %s`; ask %s", m.Name, kind, strings.Join(names, ", ")))
}

// Text opens what the texts of a model are read with, for as long as the exchange goes on.
func (g *Registry) Text(ctx context.Context, x *exchange.Exchange, m *Model) (*text.Text, *exchange.Refusal) {
	switch {
	case m.Pipeline != nil:
		return nil, exchange.Invalid(api.Invalid("model", "the model `%s` is a pipeline of networks, which takes no text; ask it at %s", m.Name, m.Pipeline.Endpoint))
	case m.Open == nil:
		return nil, exchange.Invalid(api.Invalid("model", "the model `%s` takes tensors, not text", m.Name))
	}
	text, release, err := g.texts.Get(ctx, m.TextKey, m.Open)
	if err != nil {
		if ctx.Err() != nil {
			return nil, exchange.Ended(ctx)
		}
		return nil, exchange.Unavailable("the model `%s` has failed: %v", m.Name, err)
	}
	x.Hold(release)
	return text, nil
}

// OpenTexts opens what texts are read with ahead of requests, as many as stay open.
func (g *Registry) OpenTexts(ctx context.Context) {
	set := g.now.Load()
	for _, m := range set.list {
		if m.Open == nil || ctx.Err() != nil || !g.texts.Room() {
			continue
		}
		_, release, err := g.texts.Get(ctx, m.TextKey, m.Open)
		if err != nil {
			g.log.Error("a model cannot read texts", zap.String("model", m.Name), zap.Error(err))
			continue
		}
		release()
	}
}

// Reader is the model that a request names, and what its texts are read with.
func (g *Registry) Reader(ctx context.Context, x *exchange.Exchange, name string) (*Model, *text.Text, *exchange.Refusal) {
	m, refused := g.Find(x, name)
	if refused != nil {
		return nil, nil, refused
	}
	text, refused := g.Text(ctx, x, m)
	return m, text, refused
}

// Failure is why a model cannot read texts; nil if it can, or that is not known yet.
func (g *Registry) Failure(m *Model) error {
	if err := g.texts.Failure(m.TextKey); err != nil {
		return errors.New(engine.HidePaths(err.Error())) // clients are told it
	}
	return nil
}

// AdapterNamed is the adapter that a request asks for by a name of the model; empty: none.
func (m *Model) AdapterNamed(name string) string {
	if slices.Contains(m.Adapters, name) {
		return name
	}
	return ""
}

// Others are the names beside its own that a model is served under, each once.
func (m *Model) Others() []string {
	var list []string
	for _, name := range m.Names {
		if name != m.Name && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}
