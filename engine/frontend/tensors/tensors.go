// Package tensors serves the Open Inference Protocol: requests of tensors and pictures, what networks take and give, and the
// repository of models.
package tensors

import (
	"net/http"
	"reflect"

	"github.com/prefillonly/prefillonly/engine/api/fields"
	"github.com/prefillonly/prefillonly/engine/api/openapi"
	"github.com/prefillonly/prefillonly/engine/apikey"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
	"github.com/prefillonly/prefillonly/engine/frontend/registry"
	"github.com/prefillonly/prefillonly/engine/frontend/route"
	"github.com/prefillonly/prefillonly/engine/inference"
	"github.com/prefillonly/prefillonly/engine/metrics"
	"github.com/prefillonly/prefillonly/engine/oip"
)

// server says whether the server can still come to answer, and whether new requests should be sent to it.
type server interface {
	State() (healthy, ready bool)
}

// Endpoints are those of the protocol. Their methods are safe for concurrent use.
type Endpoints struct {
	version   string
	server    server
	keys      *apikey.Ring
	models    *registry.Registry
	pool      *client.Client
	metrics   *metrics.Metrics
	inference *inference.Service
}

// New makes the endpoints of a server of some version. Models are loaded and unloaded with an admin's key.
func New(cfg inference.Config, version string, of server, keys *apikey.Ring, models *registry.Registry, pool *client.Client, counted *metrics.Metrics) *Endpoints {
	return &Endpoints{version: version, server: of, keys: keys, models: models, pool: pool, metrics: counted, inference: inference.New(cfg, pool)}
}

// Routes are the paths of the protocol.
func (e *Endpoints) Routes() []route.Route {
	ready := route.Tell("Whether a model is on a device", []int{404, 500, 503}, route.Answers[oip.Ready]()).At("/v2/models/{model}/ready").Probing()
	infer := route.Tell("The outputs of a network", route.OfRuns, route.InJSON(openapi.Schema{"type": "object", "required": []string{"model_name", "model_version", "outputs"}}), oip.Shape()).At("/v2/models/{model}/infer")
	infer.Binary = "JSON, of as many bytes as the header " + oip.HeaderLength + " says, and behind it the tensors that have binary_data_size or binary_data"
	infer.Answer["application/octet-stream"] = openapi.Schema{"type": "string", "format": "binary", "description": infer.Binary}
	load := fields.Body(reflect.TypeFor[oip.LoadRequest]())
	return []route.Route{
		route.Get("/v2", e.describeServer, route.Tell("The server, as the Open Inference Protocol has it", route.OfAny, route.Answers[oip.Server]())),
		route.Get("/v2/health/live", e.live, route.Tell("Whether the scheduler is heard of", nil, route.Answers[oip.Live]()).Probing()),
		route.Get("/v2/health/ready", e.ready, route.Tell("Whether new requests should come here", nil, route.Answers[oip.Ready]()).Probing()),
		route.Get("/v2/models/stats", e.allStatistics, route.Tell("What models have done", route.OfAny, route.Answers[oip.Statistics]())),
		route.Get("/v2/models/*", e.describeModel,
			route.Tell("What a network takes and gives", route.OfModels, route.Answers[oip.Model]()).At("/v2/models/{model}"), ready,
			route.Tell("The same in Triton's words", route.OfModels, route.Answers[oip.Config]()).At("/v2/models/{model}/config"),
			route.Tell("What a model has done", route.OfModels, route.Answers[oip.Statistics]()).At("/v2/models/{model}/stats")),
		route.Post("/v2/models/*", e.infer, infer),
		route.Post("/v2/repository/index", e.index,
			route.Tell("The models, and their states", route.OfBodies, route.Answers[[]oip.Indexed](), fields.Body(reflect.TypeFor[indexRequest]())).MayBeEmpty()),
		route.Post("/v2/repository/models/*", e.setRepositoryModel,
			route.Tell("Loads a model's weights; for an admin's key", route.OfAdmins, nil, load).At("/v2/repository/models/{model}/load").MayBeEmpty(),
			route.Tell("Unloads a model's weights; for an admin's key", route.OfAdmins, nil, load).At("/v2/repository/models/{model}/unload").MayBeEmpty()),
	}
}

// extensions are what of the protocol is served beside its core.
var extensions = []string{"binary_tensor_data", "model_configuration", "model_repository", "schedule_policy", "statistics", "images", "gradients"}

func (e *Endpoints) describeServer(x *exchange.Exchange, _ *http.Request) {
	x.WriteJSON(http.StatusOK, oip.Server{Name: "prefillonly", Version: e.version, Extensions: extensions})
}

func (e *Endpoints) live(x *exchange.Exchange, _ *http.Request) {
	live, _ := e.server.State()
	x.WriteJSON(okOr503(live), oip.Live{Live: live})
}

func (e *Endpoints) ready(x *exchange.Exchange, _ *http.Request) {
	_, ready := e.server.State()
	x.WriteJSON(okOr503(ready), oip.Ready{Ready: ready})
}

func okOr503(ok bool) int {
	if ok {
		return http.StatusOK
	}
	return http.StatusServiceUnavailable
}
