package frontend

import (
	"context"
	"net/http"
	"slices"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
)

// routeTable is every route but those of relays.
func (f *Frontend) routeTable() []route {
	metrics := route{
		Method: http.MethodGet, Pattern: "/metrics", Serve: f.metrics.Handler(),
		Told: []operation{describeOperation("The figures of the server, for Prometheus", ofAny, textsOf("text/plain"))},
	}
	pages := pageRoutes(f.boardReading, f.cfg.Version)
	return slices.Concat(f.prompts.routes(), f.tensors.routes(), f.pipelines.routes(), f.slots.routes(), f.modelRoutes(), f.serverRoutes(), pages, []route{metrics})
}

func (f *Frontend) modelRoutes() []route {
	return []route{
		getRoute("/v1/models", f.listModels, describeOperation("The models, and how each is", ofAny, answerOf[api.Models]())),
		getRoute("/v1/models/*", f.getModel, describeOperation("A model", ofModels, answerOf[api.Model]()).At("/v1/models/{model}")),
		postRoute("/v1/models/*", f.setModel,
			describeOperation("Loads a model's weights; for an admin's key", ofAdmins, answerOf[api.Model]()).At("/v1/models/{model}/load"),
			describeOperation("Unloads a model's weights; for an admin's key", ofAdmins, answerOf[api.Model]()).At("/v1/models/{model}/unload")),
	}
}

func (f *Frontend) serverRoutes() []route {
	health := describeOperation("Whether the scheduler is heard of", nil, answerOf[probe]()).Probing()
	routes := []route{
		getRoute("/ping", f.answerHealth, health),
		postRoute("/ping", f.answerHealth, health),
		getRoute("/health", f.answerHealth, health),
		getRoute("/ready", f.answerReady, describeOperation("Whether new requests should come here", nil, answerOf[probe]()).Probing()),
		getRoute("/version", f.answerVersion, describeOperation("The server's version", ofAny, answerOf[map[string]string]())),
		getRoute("/load", f.serverLoad, describeOperation("How many requests are being served", ofAny, answerOf[map[string]int]())),
		getRoute("/openapi.json", f.describeAPI, describeOperation("This document", ofAny, jsonObject())),
	}
	if f.cfg.DevMode {
		routes = append(routes, postRoute("/reset_prefix_cache", f.resetPrefixCache, describeOperation("Empties the prefix cache", ofAny, answerOf[api.CacheReset]())))
	}
	return routes
}

// describeAPI answers /openapi.json.
func (f *Frontend) describeAPI(x *exchange.Exchange, _ *http.Request) {
	body, err := f.apiDescription()
	if err != nil {
		x.Refuse(exchange.RefusalOf(context.Background(), err))
		return
	}
	x.WriteBody(http.StatusOK, body)
}

func (f *Frontend) apiDescription() ([]byte, error) {
	names := f.documentedModels()
	return f.described.Body(names, func() any { return f.apiDocument(names) })
}

// documentedModels are the names of models that requests may give.
func (f *Frontend) documentedModels() []string {
	names := f.models.Aliases()
	if len(f.models.All()) == 1 {
		names = append(names, "") // a request need not name the only one
	}
	return names
}

func (f *Frontend) apiDocument(names []string) map[string]any {
	routes := f.routeTable()
	for _, relayed := range f.relays {
		routes = append(routes, relayed.Told...)
	}
	return documentOf(routes, names, f.cfg.Version, !f.cfg.Keys.Empty())
}
