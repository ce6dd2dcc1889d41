package frontend

import (
	"context"
	"net/http"
	"slices"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
	"github.com/prefillonly/prefillonly/engine/frontend/pages"
	"github.com/prefillonly/prefillonly/engine/frontend/route"
)

// table is every route but those of relays.
func (f *Frontend) table() []route.Route {
	metrics := route.Route{
		Method: http.MethodGet, Pattern: "/metrics", Serve: f.metrics.Handler(),
		Told: []route.Operation{route.Tell("The figures of the server, for Prometheus", route.OfAny, route.Texts("text/plain"))},
	}
	pages := pages.Routes(f.reading, f.cfg.Version)
	return slices.Concat(f.prompts.Routes(), f.tensors.Routes(), f.modelRoutes(), f.serverRoutes(), pages, []route.Route{metrics})
}

func (f *Frontend) modelRoutes() []route.Route {
	return []route.Route{
		route.Get("/v1/models", f.listModels, route.Tell("The models, and how each is", route.OfAny, route.Answers[api.Models]())),
		route.Get("/v1/models/*", f.getModel, route.Tell("A model", route.OfModels, route.Answers[api.Model]()).At("/v1/models/{model}")),
		route.Post("/v1/models/*", f.setModel,
			route.Tell("Loads a model's weights; for an admin's key", route.OfAdmins, route.Answers[api.Model]()).At("/v1/models/{model}/load"),
			route.Tell("Unloads a model's weights; for an admin's key", route.OfAdmins, route.Answers[api.Model]()).At("/v1/models/{model}/unload")),
	}
}

func (f *Frontend) serverRoutes() []route.Route {
	health := route.Tell("Whether the scheduler is heard of", nil, route.Answers[probe]()).Probing()
	routes := []route.Route{
		route.Get("/ping", f.health, health),
		route.Post("/ping", f.health, health),
		route.Get("/health", f.health, health),
		route.Get("/ready", f.ready, route.Tell("Whether new requests should come here", nil, route.Answers[probe]()).Probing()),
		route.Get("/version", f.version, route.Tell("The server's version", route.OfAny, route.Answers[map[string]string]())),
		route.Get("/load", f.serverLoad, route.Tell("How many requests are being served", route.OfAny, route.Answers[map[string]int]())),
		route.Get("/openapi.json", f.describeAPI, route.Tell("This document", route.OfAny, route.Object())),
	}
	if f.cfg.DevMode {
		routes = append(routes, route.Post("/reset_prefix_cache", f.resetPrefixCache, route.Tell("Empties the prefix cache", route.OfAny, route.Answers[api.CacheReset]())))
	}
	return routes
}

// describeAPI answers /openapi.json.
func (f *Frontend) describeAPI(x *exchange.Exchange, _ *http.Request) {
	body, err := f.description()
	if err != nil {
		x.Refuse(exchange.RefusalOf(context.Background(), err))
		return
	}
	x.WriteBody(http.StatusOK, body)
}

func (f *Frontend) description() ([]byte, error) {
	names := f.documented()
	return f.described.Body(names, func() any { return f.document(names) })
}

// documented are the names of models that requests may give.
func (f *Frontend) documented() []string {
	names := f.models.Aliases()
	if len(f.models.All()) == 1 {
		names = append(names, "") // a request need not name the only one
	}
	return names
}

func (f *Frontend) document(names []string) map[string]any {
	routes := f.table()
	for _, relayed := range f.relays {
		routes = append(routes, relayed.Told...)
	}
	return route.Document(routes, names, f.cfg.Version, !f.cfg.Keys.Empty())
}
