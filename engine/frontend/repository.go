package frontend

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
	"github.com/prefillonly/prefillonly/engine/frontend/registry"
	"github.com/prefillonly/prefillonly/engine/inference"
	"github.com/prefillonly/prefillonly/engine/oip"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/jsonerror"
)

// modelOf reads a path from its right, as names may have slashes: NAME, versions/VERSION behind it or not, and an
// action or none. A GET of what is a model's name as it stands has none.
func (e *tensorEndpoints) modelOf(r *http.Request) (m *registry.Model, name, action string, refused *exchange.Refusal) {
	name = restOfPath(r)
	if e.models.Named(name) == nil || r.Method == http.MethodPost {
		if before, last := cutLast(name); r.Method == http.MethodPost || last == "ready" || last == "config" || last == "stats" {
			name, action = before, last
		}
	}
	version := inference.Version
	if before, last := cutLast(name); e.models.Named(name) == nil && strings.HasSuffix(before, "/versions") {
		name, version = strings.TrimSuffix(before, "/versions"), last
	}
	switch m = e.models.Named(name); {
	case m == nil:
		return nil, name, action, exchange.UnknownModel(name)
	case version != inference.Version:
		return nil, name, action, exchange.WithStatus(http.StatusNotFound, api.TypeNotFound, "model_not_found", "The model `%.200s` has no version `%.40s`; its only version is %s.", name, version, inference.Version)
	}
	return m, name, action, nil
}

// describeModel answers what a path ends with: ready, config, stats, or nothing, which is the metadata.
func (e *tensorEndpoints) describeModel(x *exchange.Exchange, r *http.Request) {
	m, name, action, refused := e.modelOf(r)
	if refused != nil {
		x.Refuse(refused)
		return
	}
	x.Model = m.Name
	served := e.pool.State().Models[m.Name]
	switch {
	case action == "ready":
		ready := served != nil && served.State == wire.ModelReady && e.models.Failure(m) == nil
		x.WriteJSON(okOr503(ready), oip.Ready{Name: name, Ready: ready})
	case action == "stats":
		x.WriteJSON(http.StatusOK, oip.Statistics{Models: []oip.ModelStatistics{e.statistics(m, name)}})
	case served == nil || served.Tensors == nil && served.Tokens == nil:
		x.Refuse(exchange.Unavailable("no executor has told what the model `%s` takes; come back later", name))
	case action == "config":
		x.WriteJSON(http.StatusOK, inference.Configure(name, served, m.Image))
	default:
		x.WriteJSON(http.StatusOK, inference.Describe(name, served))
	}
}

func (e *tensorEndpoints) allStatistics(x *exchange.Exchange, _ *http.Request) {
	all := oip.Statistics{Models: []oip.ModelStatistics{}}
	for _, m := range e.models.All() {
		all.Models = append(all.Models, e.statistics(m, m.Name))
	}
	x.WriteJSON(http.StatusOK, all)
}

// statistics are what this frontend has counted of a model, and what the pool has of its passes.
func (e *tensorEndpoints) statistics(m *registry.Model, name string) oip.ModelStatistics {
	s := e.metrics.Of(m.Name).Statistics(name, inference.Version)
	for _, p := range e.pool.State().Stats {
		if p.Model == m.Name {
			s.ExecutionCount = p.Passes
		}
	}
	return s
}

// indexRequest is the body of the repository's index.
type indexRequest struct {
	Ready bool `json:"ready" default:"false"`
}

// index lists the models of the repository, which are those of the configuration. It changes nothing, so its body may
// have any Content-Type, as that of an inference may.
func (e *tensorEndpoints) index(x *exchange.Exchange, r *http.Request) {
	var asked indexRequest
	if refused := readOptional(x, r, &asked); refused != nil {
		x.Refuse(refused)
		return
	}
	list := []oip.Indexed{}
	for _, m := range e.models.All() {
		i := inference.Index(m.Name, e.pool.State().Models[m.Name])
		if err := e.models.Failure(m); err != nil {
			i.State, i.Reason = "UNAVAILABLE", err.Error()
		}
		if !asked.Ready || i.State == "READY" {
			list = append(list, i)
		}
	}
	x.WriteJSON(http.StatusOK, list)
}

// setRepositoryModel loads or unloads the model whose name stands before the last part of the path.
func (e *tensorEndpoints) setRepositoryModel(x *exchange.Exchange, r *http.Request) {
	var asked oip.LoadRequest
	name, action := cutLast(restOfPath(r))
	refused := refuseUnlessAdmin(x.Owner, e.keys)
	if refused == nil {
		refused = exchange.CheckJSON(r)
	}
	if refused == nil {
		refused = readOptional(x, r, &asked)
	}
	if refused == nil {
		refused = e.setModelState(x, r, name, action, asked.Parameters)
	}
	if refused != nil {
		x.Refuse(refused)
		return
	}
	x.WriteHeader(http.StatusOK)
}

func (e *tensorEndpoints) setModelState(x *exchange.Exchange, r *http.Request, name, action string, parameters map[string]any) *exchange.Refusal {
	for key := range parameters {
		if key != "unload_dependents" {
			return exchange.Invalid(api.Invalid("parameters", "parameter %.100q is not served: models, and how they are run, are those of the server's configuration", key))
		}
	}
	change := map[string]func(context.Context, string) error{"load": e.pool.Load, "unload": e.pool.Unload}[action]
	if change == nil {
		return exchange.UnknownPath(r.URL.Path)
	}
	m := e.models.Named(name)
	if m == nil {
		return exchange.UnknownModel(name)
	}
	x.Model = m.Name
	return exchange.RefusalOf(r.Context(), change(r.Context(), m.Name))
}

// readOptional decodes a body of JSON, whatever its Content-Type; it may be empty.
func readOptional(x *exchange.Exchange, r *http.Request, into any) *exchange.Refusal {
	b, refused := x.ReadCoded(r)
	if refused != nil {
		return refused
	}
	defer b.Release()
	if err := json.NewDecoder(strings.NewReader(string(b.Bytes))).Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return exchange.Invalid(api.Invalid("", "the body is not the JSON of this request: %s", jsonerror.Explain(err, into)))
	}
	return nil
}
