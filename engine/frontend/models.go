package frontend

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/checkpoint"
	"github.com/prefillonly/prefillonly/engine/completion"
	"github.com/prefillonly/prefillonly/engine/images"
	"github.com/prefillonly/prefillonly/engine/scoring"
)

// Model is a model of the pool that requests may name.
type Model struct {
	Name   string   // the pool's, and the requests'
	Names  []string // others that requests may use
	Always bool     // the server is not ready without it
	// Open opens what the model's texts are read and written with, when a request needs it; it is closed when many
	// others were needed since. Nil: the model takes no text.
	Open       func() (*Text, error)
	Checkpoint *checkpoint.Model // what the model is for; nil: not known
	Image      images.Options    // how the model's pictures become its input
	// Models of equal TextKey share what one of them opens, also with those of an earlier SetModels; an empty one is the
	// model's own until the next.
	TextKey string
}

// Text is what a model's texts are read and written with.
type Text struct {
	completion.Text
	Specials scoring.Specials
	Close    func() // frees it; may be nil
}

func (t *Text) close() {
	if t.Close != nil {
		t.Close()
	}
}

// models are those that are served at a time.
type models struct {
	list   []*Model
	byName map[string]*Model // by every name
}

func (m *models) names() []string {
	list := make([]string, len(m.list))
	for i := range list {
		list[i] = m.list[i].Name
	}
	return list
}

// SetModels puts others in the place of the models that are served. Requests on their way go on with theirs, but
// those of a model that is served no longer are refused.
func (f *Frontend) SetModels(served []Model) error {
	if len(served) == 0 {
		return errors.New("no model is to be served")
	}
	set, number := &models{byName: map[string]*Model{}}, f.sets.Add(1)
	for _, m := range served {
		if m.TextKey == "" {
			m.TextKey = fmt.Sprintf("%s of set %d", m.Name, number)
		}
		set.list = append(set.list, &m)
		for _, name := range append([]string{m.Name}, m.Names...) {
			switch other := set.byName[name]; {
			case name == "":
				return errors.New("no served model name is given")
			case other != nil && other != &m:
				return fmt.Errorf("the models %s and %s are both to be served as %s", other.Name, m.Name, name)
			}
			set.byName[name] = &m
		}
	}
	before := f.models.Swap(set)
	if before == nil {
		return nil
	}
	for _, m := range before.list {
		if !slices.Contains(set.names(), m.Name) {
			f.pool.Abandon(m.Name, engine.Errorf(engine.CodeUnavailable, "model %q was taken out of the server's configuration", m.Name))
		}
	}
	return nil
}

// model is the one that a request names. The empty name is that of the only one there is.
func (f *Frontend) model(x *exchange, name string) (*Model, *refusal) {
	set := f.models.Load()
	m := set.byName[name]
	switch {
	case m != nil:
	case name != "":
		return nil, unknownModel(name)
	case len(set.list) > 1:
		return nil, invalid(api.Invalid("model", "the request names no model, and the server has %d; name one of those that /v1/models lists", len(set.list)))
	default:
		m = set.list[0]
	}
	x.model = m.Name
	return m, nil
}

// text opens what the texts of a model are read with, for as long as the exchange goes on.
func (f *Frontend) text(ctx context.Context, x *exchange, m *Model) (*Text, *refusal) {
	if m.Open == nil {
		return nil, invalid(api.Invalid("model", "the model `%s` takes tensors, not text", m.Name))
	}
	text, release, err := f.texts.Get(ctx, m.TextKey, m.Open)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ended(ctx)
		}
		return nil, textFailed(m, err)
	}
	x.release = release
	return text, nil
}

// openTexts opens what texts are read with ahead of requests, as many as stay open.
func (f *Frontend) openTexts(ctx context.Context) {
	set := f.models.Load()
	for _, m := range set.list {
		if m.Open == nil || ctx.Err() != nil || !f.texts.Room() {
			continue
		}
		_, release, err := f.texts.Get(ctx, m.TextKey, m.Open)
		if err != nil {
			f.log.Error("a model cannot read texts", zap.String("model", m.Name), zap.Error(err))
			continue
		}
		release()
	}
}

// failure is why a model cannot read texts; nil if it can, or that is not known yet.
func (f *Frontend) failure(m *Model) error { return f.texts.Failure(m.TextKey) }

// others are the names beside its own that a model is served under, each once.
func (m *Model) others() []string {
	var list []string
	for _, name := range m.Names {
		if name != m.Name && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}
