package frontend

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/inference"
	"github.com/prefillonly/prefillonly/engine/oip"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// extensions are what of the protocol is served beside its core.
var extensions = []string{"binary_tensor_data", "model_configuration", "model_repository", "schedule_policy", "statistics", "images", "gradients"}

func (f *Frontend) describeServer(x *exchange, _ *http.Request) {
	f.writeJSON(x, http.StatusOK, oip.Server{Name: "prefillonly", Version: f.cfg.Version, Extensions: extensions})
}

func (f *Frontend) live(x *exchange, _ *http.Request) {
	live := f.unhealthy() == ""
	f.writeJSON(x, okOr503(live), oip.Live{Live: live})
}

func (f *Frontend) liveReady(x *exchange, _ *http.Request) {
	ready := f.readiness().Reason == ""
	f.writeJSON(x, okOr503(ready), oip.Ready{Ready: ready})
}

func okOr503(ok bool) int {
	if ok {
		return http.StatusOK
	}
	return http.StatusServiceUnavailable
}

// modelOf reads a path from its right, as names may have slashes: NAME, versions/VERSION behind it or not, and an
// action or none. A GET of what is a model's name as it stands has none.
func (f *Frontend) modelOf(r *http.Request) (m *Model, name, action string, refused *refusal) {
	known := f.models.Load().byName
	name = rest(r)
	if known[name] == nil || r.Method == http.MethodPost {
		if before, last := cutLast(name); r.Method == http.MethodPost || last == "ready" || last == "config" || last == "stats" {
			name, action = before, last
		}
	}
	version := inference.Version
	if before, last := cutLast(name); known[name] == nil && strings.HasSuffix(before, "/versions") {
		name, version = strings.TrimSuffix(before, "/versions"), last
	}
	switch m = known[name]; {
	case m == nil:
		return nil, name, action, unknownModel(name)
	case version != inference.Version:
		return nil, name, action, refuseStatus(http.StatusNotFound, api.TypeNotFound, "model_not_found", "The model `%.200s` has no version `%.40s`; its only version is %s.", name, version, inference.Version)
	}
	return m, name, action, nil
}

// describeModel answers what a path ends with: ready, config, stats, or nothing, which is the metadata.
func (f *Frontend) describeModel(x *exchange, r *http.Request) {
	m, name, action, refused := f.modelOf(r)
	if refused != nil {
		f.refuse(x, refused)
		return
	}
	x.model = m.Name
	served := f.pool.State().Models[m.Name]
	switch {
	case action == "ready":
		ready := served != nil && served.State == wire.ModelReady && f.failure(m) == nil
		f.writeJSON(x, okOr503(ready), oip.Ready{Name: name, Ready: ready})
	case action == "stats":
		f.writeJSON(x, http.StatusOK, oip.Statistics{Models: []oip.ModelStatistics{f.statistics(m, name)}})
	case served == nil || served.Tensors == nil && served.Tokens == nil:
		f.refuse(x, refuse(engine.CodeUnavailable, "no executor has told what the model `%s` takes; come back later", name))
	case action == "config":
		f.writeJSON(x, http.StatusOK, inference.Configure(name, served, m.Image))
	default:
		f.writeJSON(x, http.StatusOK, inference.Describe(name, served))
	}
}

func (f *Frontend) allStatistics(x *exchange, _ *http.Request) {
	all := oip.Statistics{Models: []oip.ModelStatistics{}}
	for _, m := range f.models.Load().list {
		all.Models = append(all.Models, f.statistics(m, m.Name))
	}
	f.writeJSON(x, http.StatusOK, all)
}

// statistics are what this frontend has counted of a model, and what the pool has of its passes.
func (f *Frontend) statistics(m *Model, name string) oip.ModelStatistics {
	s := f.metrics.Of(m.Name).Statistics(name, inference.Version)
	for _, p := range f.pool.State().Stats {
		if p.Model == m.Name {
			s.ExecutionCount = p.Passes
		}
	}
	return s
}

// index lists the models of the repository, which are those of the configuration. It changes nothing, so its body may
// have any Content-Type, as that of an inference may.
func (f *Frontend) index(x *exchange, r *http.Request) {
	var asked indexRequest
	if refused := f.readOptional(x, r, &asked); refused != nil {
		f.refuse(x, refused)
		return
	}
	list := []oip.Indexed{}
	for _, m := range f.models.Load().list {
		i := inference.Index(m.Name, f.pool.State().Models[m.Name])
		if err := f.failure(m); err != nil {
			i.State, i.Reason = "UNAVAILABLE", err.Error()
		}
		if !asked.Ready || i.State == "READY" {
			list = append(list, i)
		}
	}
	f.writeJSON(x, http.StatusOK, list)
}

// setRepositoryModel loads or unloads the model whose name stands before the last part of the path.
func (f *Frontend) setRepositoryModel(x *exchange, r *http.Request) {
	var asked oip.LoadRequest
	name, action := cutLast(rest(r))
	refused := f.authorizeAdmin(x)
	if refused == nil {
		refused = f.checkJSON(r)
	}
	if refused == nil {
		refused = f.readOptional(x, r, &asked)
	}
	if refused == nil {
		refused = f.set(x, r, name, action, asked.Parameters)
	}
	if refused != nil {
		f.refuse(x, refused)
		return
	}
	x.WriteHeader(http.StatusOK)
}

func (f *Frontend) set(x *exchange, r *http.Request, name, action string, parameters map[string]any) *refusal {
	for key := range parameters {
		if key != "unload_dependents" {
			return invalid(api.Invalid("parameters", "parameter %.100q is not served: models, and how they are run, are those of the server's configuration", key))
		}
	}
	change := map[string]func(context.Context, string) error{"load": f.pool.Load, "unload": f.pool.Unload}[action]
	if change == nil {
		return unknownPath(r.URL.Path)
	}
	m := f.models.Load().byName[name]
	if m == nil {
		return unknownModel(name)
	}
	x.model = m.Name
	return f.orRefused(r, change(r.Context(), m.Name))
}

// readOptional decodes a body of JSON, whatever its Content-Type; it may be empty.
func (f *Frontend) readOptional(x *exchange, r *http.Request, into any) *refusal {
	from, refused := decoded(r)
	if refused != nil {
		return refused
	}
	b, refused := f.read(x, r, from)
	if refused != nil {
		return refused
	}
	defer f.release(b)
	if err := json.NewDecoder(strings.NewReader(string(b.bytes))).Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return invalid(api.Invalid("", "the body is not the JSON of this request: %v", err))
	}
	return nil
}
