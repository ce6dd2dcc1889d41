package frontend

import (
	"context"
	"net/http"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
	"github.com/prefillonly/prefillonly/engine/frontend/registry"
	"github.com/prefillonly/prefillonly/engine/scoring"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// listedModel is a model as /v1/models tells of it under one of its names.
func (f *Frontend) listedModel(m *registry.Model, name string) api.Model {
	out := api.Model{
		ID: name, Object: "model", Created: f.started.Unix(), OwnedBy: "prefillonly", Root: m.Name,
		DefaultMaxTokens: f.cfg.DefaultMaxTokens, State: wire.ModelAbsent.String(),
	}
	if m.AdapterNamed(name) != "" {
		out.Root, out.Parent = name, &m.Name
	}
	if m.Open == nil {
		out.DefaultMaxTokens = 0
	}
	if m.Checkpoint != nil {
		out.Capabilities = scoring.Capabilities(m.Checkpoint)
	}
	if m.Pipeline != nil {
		out.Capabilities = []string{m.Pipeline.Kind}
	}
	if served := f.pool.State().Models[m.Name]; served != nil {
		out.State, out.Reason, out.Bytes = served.State.String(), served.Reason, served.Bytes
		if served.Tokens != nil {
			out.MaxModelLen = served.Tokens.MaxModelLen
		}
	}
	if err := f.models.Failure(m); err != nil {
		out.State, out.Reason = wire.ModelFailed.String(), err.Error()
	}
	return out
}

func (f *Frontend) listModels(x *exchange.Exchange, _ *http.Request) {
	list := api.Models{Object: "list"}
	for _, m := range f.models.All() {
		list.Data = append(list.Data, f.listedModel(m, m.Name))
		for _, name := range m.Others() {
			list.Data = append(list.Data, f.listedModel(m, name))
		}
		for _, name := range m.Adapters {
			list.Data = append(list.Data, f.listedModel(m, name))
		}
	}
	x.WriteJSON(http.StatusOK, list)
}

func (f *Frontend) getModel(x *exchange.Exchange, r *http.Request) {
	name := restOfPath(r)
	m := f.models.Named(name)
	if m == nil {
		x.Refuse(exchange.UnknownModel(name))
		return
	}
	x.WriteJSON(http.StatusOK, f.listedModel(m, name))
}

// setModel loads or unloads the model whose name stands before the last part of the path.
func (f *Frontend) setModel(x *exchange.Exchange, r *http.Request) {
	name, action := cutLast(restOfPath(r))
	set := map[string]func(context.Context, string) error{"load": f.pool.Load, "unload": f.pool.Unload}[action]
	if set == nil {
		x.Refuse(exchange.UnknownPath(r.URL.Path))
		return
	}
	if refused := refuseUnlessAdmin(x.Owner, f.cfg.Keys); refused != nil {
		x.Refuse(refused)
		return
	}
	m := f.models.Named(name)
	if m == nil {
		x.Refuse(exchange.UnknownModel(name))
		return
	}
	if m.AdapterNamed(name) != "" {
		x.Refuse(exchange.Invalid(api.Invalid("model", "`%s` is an adapter of `%s`, with whose weights it is loaded and unloaded", name, m.Name)))
		return
	}
	x.Model = m.Name
	if err := set(r.Context(), m.Name); err != nil {
		x.Refuse(exchange.RefusalOf(r.Context(), err))
		return
	}
	out := f.listedModel(m, name)
	out.State = map[string]wire.ModelState{"load": wire.ModelReady, "unload": wire.ModelAbsent}[action].String()
	x.WriteJSON(http.StatusOK, out)
}
