package frontend

import (
	"net/http"
	"reflect"

	"github.com/prefillonly/prefillonly/engine/api/fields"
	"github.com/prefillonly/prefillonly/engine/api/openapi"
	"github.com/prefillonly/prefillonly/engine/apikey"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
	"github.com/prefillonly/prefillonly/engine/frontend/registry"
	"github.com/prefillonly/prefillonly/engine/inference"
	"github.com/prefillonly/prefillonly/engine/metrics"
	"github.com/prefillonly/prefillonly/engine/oip"
)

// serverState says whether the server can still come to answer, and whether new requests should be sent to it.
type serverState interface {
	State() (healthy, ready bool)
}

// tensorEndpoints are those of the Open Inference Protocol: requests of tensors and pictures, what networks take and give, and the
// repository of models. Their methods are safe for concurrent use.
type tensorEndpoints struct {
	version   string
	server    serverState
	keys      *apikey.Ring
	models    *registry.Registry
	pool      *client.Client
	metrics   *metrics.Metrics
	inference *inference.Service
}

// newTensorEndpoints makes the endpoints of a server of some version. Models are loaded and unloaded with an admin's key.
func newTensorEndpoints(cfg inference.Config, version string, of serverState, keys *apikey.Ring, models *registry.Registry, pool *client.Client, counted *metrics.Metrics) *tensorEndpoints {
	return &tensorEndpoints{version: version, server: of, keys: keys, models: models, pool: pool, metrics: counted, inference: inference.New(cfg)}
}

// routes are the paths of the protocol.
func (e *tensorEndpoints) routes() []route {
	ready := describeOperation("Whether a model is on a device", []int{404, 500, 503}, answerOf[oip.Ready]()).At("/v2/models/{model}/ready").Probing()
	infer := describeOperation("The outputs of a network", ofRuns, inJSON(openapi.Schema{"type": "object", "required": []string{"model_name", "model_version", "outputs"}}), oip.Shape()).At("/v2/models/{model}/infer")
	infer.Binary = "JSON, of as many bytes as the header " + oip.HeaderLength + " says, and behind it the tensors that have binary_data_size or binary_data"
	infer.Answer["application/octet-stream"] = openapi.Schema{"type": "string", "format": "binary", "description": infer.Binary}
	load := fields.Body(reflect.TypeFor[oip.LoadRequest]())
	return []route{
		getRoute("/v2", e.describeServer, describeOperation("The server, as the Open Inference Protocol has it", ofAny, answerOf[oip.Server]())),
		getRoute("/v2/health/live", e.answerLive, describeOperation("Whether the scheduler is heard of", nil, answerOf[oip.Live]()).Probing()),
		getRoute("/v2/health/ready", e.ready, describeOperation("Whether new requests should come here", nil, answerOf[oip.Ready]()).Probing()),
		getRoute("/v2/models/stats", e.allStatistics, describeOperation("What models have done", ofAny, answerOf[oip.Statistics]())),
		getRoute("/v2/models/*", e.describeModel,
			describeOperation("What a network takes and gives", ofModels, answerOf[oip.Model]()).At("/v2/models/{model}"), ready,
			describeOperation("The same in Triton's words", ofModels, answerOf[oip.Config]()).At("/v2/models/{model}/config"),
			describeOperation("What a model has done", ofModels, answerOf[oip.Statistics]()).At("/v2/models/{model}/stats")),
		postRoute("/v2/models/*", e.infer, infer),
		postRoute("/v2/repository/index", e.index,
			describeOperation("The models, and their states", ofBodies, answerOf[[]oip.Indexed](), fields.Body(reflect.TypeFor[indexRequest]())).MayBeEmpty()),
		postRoute("/v2/repository/models/*", e.setRepositoryModel,
			describeOperation("Loads a model's weights; for an admin's key", ofAdmins, nil, load).At("/v2/repository/models/{model}/load").MayBeEmpty(),
			describeOperation("Unloads a model's weights; for an admin's key", ofAdmins, nil, load).At("/v2/repository/models/{model}/unload").MayBeEmpty()),
	}
}

// extensions are what of the protocol is served beside its core.
var extensions = []string{"binary_tensor_data", "model_configuration", "model_repository", "schedule_policy", "statistics", "images", "gradients"}

func (e *tensorEndpoints) describeServer(x *exchange.Exchange, _ *http.Request) {
	x.WriteJSON(http.StatusOK, oip.Server{Name: "prefillonly", Version: e.version, Extensions: extensions})
}

func (e *tensorEndpoints) answerLive(x *exchange.Exchange, _ *http.Request) {
	live, _ := e.server.State()
	x.WriteJSON(okOr503(live), oip.Live{Live: live})
}

func (e *tensorEndpoints) ready(x *exchange.Exchange, _ *http.Request) {
	_, ready := e.server.State()
	x.WriteJSON(okOr503(ready), oip.Ready{Ready: ready})
}

func okOr503(ok bool) int {
	if ok {
		return http.StatusOK
	}
	return http.StatusServiceUnavailable
}
