package frontend

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/scoring"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// listed is a model as /v1/models tells of it under one of its names.
func (f *Frontend) listed(m *Model, name string) api.Model {
	out := api.Model{
		ID: name, Object: "model", Created: f.started.Unix(), OwnedBy: "prefillonly", Root: m.Name,
		DefaultMaxTokens: f.cfg.DefaultMaxTokens, State: wire.ModelAbsent.String(),
	}
	if m.Open == nil {
		out.DefaultMaxTokens = 0
	}
	if m.Checkpoint != nil {
		out.Capabilities = scoring.Capabilities(m.Checkpoint)
	}
	if served := f.pool.State().Models[m.Name]; served != nil {
		out.State, out.Reason, out.Bytes = served.State.String(), served.Reason, served.Bytes
		if served.Tokens != nil {
			out.MaxModelLen = served.Tokens.MaxModelLen
		}
	}
	if err := f.failure(m); err != nil {
		out.State, out.Reason = wire.ModelFailed.String(), err.Error()
	}
	return out
}

func (f *Frontend) listModels(x *exchange, _ *http.Request) {
	list := api.Models{Object: "list"}
	for _, m := range f.models.Load().list {
		list.Data = append(list.Data, f.listed(m, m.Name))
		for _, name := range m.others() {
			list.Data = append(list.Data, f.listed(m, name))
		}
	}
	f.writeJSON(x, http.StatusOK, list)
}

func (f *Frontend) getModel(x *exchange, r *http.Request) {
	name := rest(r)
	m := f.models.Load().byName[name]
	if m == nil {
		f.refuse(x, unknownModel(name))
		return
	}
	f.writeJSON(x, http.StatusOK, f.listed(m, name))
}

// setModel loads or unloads the model whose name stands before the last part of the path.
func (f *Frontend) setModel(x *exchange, r *http.Request) {
	name, action := cutLast(rest(r))
	set := map[string]func(context.Context, string) error{"load": f.pool.Load, "unload": f.pool.Unload}[action]
	if set == nil {
		f.refuse(x, unknownPath(r.URL.Path))
		return
	}
	if refused := f.authorizeAdmin(x); refused != nil {
		f.refuse(x, refused)
		return
	}
	m := f.models.Load().byName[name]
	if m == nil {
		f.refuse(x, unknownModel(name))
		return
	}
	x.model = m.Name
	if err := set(r.Context(), m.Name); err != nil {
		f.refuse(x, refusalOf(r.Context(), err))
		return
	}
	out := f.listed(m, name)
	out.State = map[string]wire.ModelState{"load": wire.ModelReady, "unload": wire.ModelAbsent}[action].String()
	f.writeJSON(x, http.StatusOK, out)
}

// rest is what of the path stands for the star of the route: a name, in which a client may have escaped the slashes.
func rest(r *http.Request) string {
	name := chi.URLParam(r, "*")
	if r.URL.RawPath == "" {
		return name
	}
	if plain, err := url.PathUnescape(name); err == nil {
		return plain
	}
	return name
}

// cutLast cuts a path before its last slash.
func cutLast(path string) (before, last string) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 0)], path[i+1:]
}
