package frontend

import (
	"net/http"
	"reflect"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/completions"
	"github.com/prefillonly/prefillonly/engine/api/decisions"
	"github.com/prefillonly/prefillonly/engine/api/fields"
	"github.com/prefillonly/prefillonly/engine/api/openapi"
	"github.com/prefillonly/prefillonly/engine/api/pooling"
	"github.com/prefillonly/prefillonly/engine/oip"
)

// route is a method of a path, who serves it, and what /openapi.json tells of it.
type route struct {
	method, pattern string // the router's
	serve           http.Handler
	told            []operation
}

// operation is one of a route's, which has several where a star of its pattern stands for paths of several forms.
type operation struct {
	openapi.Operation
	forms    []pooling.Dialect // of errors; none: as the path's are
	statuses []int             // of errors, in OpenAI's words
}

// Statuses that requests are refused with, by what they are: any, those of a model, those with a body, those that run.
var (
	ofAny    = []int{500, 503}
	ofModels = []int{404, 500, 503}
	ofBodies = []int{400, 404, 408, 413, 415, 429, 500, 503}
	ofRuns   = []int{400, 404, 408, 413, 415, 429, 500, 503, 504}
	ofAdmins = []int{400, 403, 404, 408, 413, 415, 429, 500, 503}
)

// answers is what of Go is encoded to JSON.
func answers[Of any]() map[string]openapi.Schema {
	return inJSON(fields.Answer(reflect.TypeFor[Of]()))
}

func inJSON(s openapi.Schema) map[string]openapi.Schema {
	return map[string]openapi.Schema{"application/json": s}
}

func text(kind string) map[string]openapi.Schema {
	return map[string]openapi.Schema{kind: {"type": "string"}}
}

// tell makes an operation. Its path is the route's, unless it is given one.
func tell(about string, statuses []int, answer map[string]openapi.Schema, bodies ...openapi.Schema) operation {
	return operation{openapi.Operation{About: about, Answer: answer, Bodies: bodies}, nil, statuses}
}

func (o operation) at(path string) operation {
	o.Path = path
	return o
}

func (o operation) query(names ...string) operation {
	o.Query = names
	return o
}

func (o operation) optional() operation {
	o.Optional = true
	return o
}

// streamed adds the server-sent events that a request with stream is answered with.
func (o operation) streamed(event string) operation {
	o.Answer["text/event-stream"] = openapi.Schema{
		"type":        "string",
		"description": "With stream: events, the data of each " + event + " as in an answer, and [DONE] behind the last. An error that comes after the first event is an event, too.",
	}
	return o
}

// table is every route but those of video streams.
func (f *Frontend) table() []route {
	var list []route
	add := func(method, path string, h func(*exchange, *http.Request), told ...operation) {
		list = append(list, route{method, path, handle(h), told})
	}
	get := func(path string, h func(*exchange, *http.Request), told ...operation) {
		add(http.MethodGet, path, h, told...)
	}
	post := func(path string, h func(*exchange, *http.Request), told ...operation) {
		add(http.MethodPost, path, h, told...)
	}
	f.completionRoutes(post)
	f.scoringRoutes(post)
	f.modelRoutes(get, post)
	f.tensorRoutes(get, post)
	f.serverRoutes(get, post)
	metrics := tell("The figures of the server, for Prometheus", ofAny, text("text/plain"))
	return append(list, route{http.MethodGet, "/metrics", f.metrics.Handler(), []operation{metrics}})
}

type adder func(path string, h func(*exchange, *http.Request), told ...operation)

func (f *Frontend) completionRoutes(post adder) {
	post("/v1/completions", f.answerCompletion, tell("Tokens that follow prompts", ofRuns, answers[completions.Completion](), completions.CompletionBody).streamed("a completion"))
	post("/v1/completions/render", f.renderCompletions, tell("The tokens of prompts; nothing is run", ofRuns, answers[[]completions.Rendered](), completions.CompletionBody))
	post("/v1/chat/completions", f.answerChat, tell("The next message of a conversation", ofRuns, answers[completions.Chat](), completions.ChatBody).streamed("a chat.completion.chunk"))
	post("/v1/chat/completions/render", f.renderChat, tell("The tokens of a conversation; nothing is run", ofRuns, answers[completions.Rendered](), completions.ChatBody))
	object := inJSON(openapi.Schema{"type": "object"})
	post("/v1/decisions", f.answerDecision(decisions.Decode), tell("How likely each of a few answers is, of questions about one input", ofRuns, object, decisions.Body))
	post("/v1/systemone", f.answerDecision(decisions.DecodeSystemOne), tell("The same in System One's form", ofRuns, object, decisions.SystemOneBody))
	tokenize := tell("The tokens of a text or a conversation, in vLLM's form; of texts in TEI's", ofRuns, inJSON(fields.AnyOf(fields.Answer(reflect.TypeFor[completions.Tokenized]()), pooling.TokensAnswer)), completions.TokenizeBody, pooling.TextsBody)
	tokenize.forms = []pooling.Dialect{pooling.OpenAI, pooling.TEI}
	post("/tokenize", f.tokenize, tokenize)
	post("/detokenize", f.detokenize, tell("The text of tokens, in vLLM's form", ofRuns, answers[completions.Detokenized](), completions.DetokenizeBody))
	post("/decode", f.decodeIDs, tell("The texts of tokens, in TEI's form", ofRuns, answers[[]string](), pooling.IDsBody))
}

func (f *Frontend) scoringRoutes(post adder) {
	for _, e := range pooling.Endpoints() {
		told := tell(e.About, ofRuns, inJSON(e.Answer), e.Bodies...)
		told.forms = e.Forms
		post(e.Path, f.answerScoring(e), told)
	}
	post("/embed_sparse", f.embedSparse, tell("TEI's error of a model without sparse vectors, as none is served that has them", ofRuns, inJSON(openapi.Schema{}), pooling.TextsBody))
}

func (f *Frontend) modelRoutes(get, post adder) {
	get("/v1/models", f.listModels, tell("The models, and how each is", ofAny, answers[api.Models]()))
	get("/v1/models/*", f.getModel, tell("A model", ofModels, answers[api.Model]()).at("/v1/models/{model}"))
	post("/v1/models/*", f.setModel,
		tell("Loads a model's weights; for an admin's key", ofAdmins, answers[api.Model]()).at("/v1/models/{model}/load"),
		tell("Unloads a model's weights; for an admin's key", ofAdmins, answers[api.Model]()).at("/v1/models/{model}/unload"))
	info := []int{400, 404, 500, 503}
	get("/info", f.info, tell("What a model is for, in TEI's form", info, answers[teiInfo]()).query("model"))
	get("/tokenizer_info", f.tokenizerInfo, tell("The configuration of a model's tokenizer, in vLLM's form", info, inJSON(openapi.Schema{"type": "object"})).query("model"))
}

func (f *Frontend) tensorRoutes(get, post adder) {
	probed := map[string]openapi.Schema{"application/json": fields.Answer(reflect.TypeFor[oip.Ready]())}
	get("/v2", f.describeServer, tell("The server, as the Open Inference Protocol has it", ofAny, answers[oip.Server]()))
	get("/v2/health/live", f.live, probing(tell("Whether the scheduler is heard of", nil, answers[oip.Live]())))
	get("/v2/health/ready", f.liveReady, probing(tell("Whether new requests should come here", nil, probed)))
	get("/v2/models/stats", f.allStatistics, tell("What models have done", ofAny, answers[oip.Statistics]()))
	ready := tell("Whether a model is on a device", []int{404, 500, 503}, probed).at("/v2/models/{model}/ready")
	ready.Refusals = []openapi.Refusal{{Status: http.StatusServiceUnavailable, Body: probed["application/json"]}}
	get("/v2/models/*", f.describeModel,
		tell("What a network takes and gives", ofModels, answers[oip.Model]()).at("/v2/models/{model}"), ready,
		tell("The same in Triton's words", ofModels, answers[oip.Config]()).at("/v2/models/{model}/config"),
		tell("What a model has done", ofModels, answers[oip.Statistics]()).at("/v2/models/{model}/stats"))
	infer := tell("The outputs of a network", ofRuns, inJSON(openapi.Schema{"type": "object", "required": []string{"model_name", "model_version", "outputs"}}), oip.Shape()).at("/v2/models/{model}/infer")
	binary := "JSON, of as many bytes as the header " + oip.HeaderLength + " says, and behind it the tensors that have binary_data_size or binary_data"
	infer.Answer["application/octet-stream"], infer.Binary = openapi.Schema{"type": "string", "format": "binary", "description": binary}, binary
	post("/v2/models/*", f.infer, infer)
	post("/v2/repository/index", f.index, tell("The models, and their states", ofBodies, answers[[]oip.Indexed](), fields.Body(reflect.TypeFor[indexRequest]())).optional())
	load := fields.Body(reflect.TypeFor[oip.LoadRequest]())
	post("/v2/repository/models/*", f.setRepositoryModel,
		tell("Loads a model's weights; for an admin's key", ofAdmins, nil, load).at("/v2/repository/models/{model}/load").optional(),
		tell("Unloads a model's weights; for an admin's key", ofAdmins, nil, load).at("/v2/repository/models/{model}/unload").optional())
}

// probing has the same body when it says no.
func probing(o operation) operation {
	o.Refusals = []openapi.Refusal{{Status: http.StatusServiceUnavailable, Body: o.Answer["application/json"]}}
	return o
}

func (f *Frontend) serverRoutes(get, post adder) {
	if f.cfg.DevMode {
		post("/reset_prefix_cache", f.resetPrefixCache, tell("Empties the prefix cache", ofAny, answers[api.CacheReset]()))
	}
	health := probing(tell("Whether the scheduler is heard of", nil, answers[probe]()))
	get("/ping", f.health, health)
	post("/ping", f.health, health)
	get("/health", f.health, health)
	get("/ready", f.ready, probing(tell("Whether new requests should come here", nil, answers[probe]())))
	get("/version", f.version, tell("The server's version", ofAny, answers[map[string]string]()))
	get("/load", f.serverLoad, tell("How many requests are being served", ofAny, answers[map[string]int]()))
	get("/openapi.json", f.describeAPI, tell("This document", ofAny, inJSON(openapi.Schema{"type": "object"})))
	home := tell("The page of the server, by a redirect", ofAny, nil)
	home.Status = http.StatusFound
	get("/", f.boardHome, home)
	get("/ui", f.boardPage, tell("The page of the server", ofAny, text("text/html")))
	get("/ui/now", f.boardNow, tell("The part of it that changes", ofAny, text("text/html")))
	get("/ui/{file}", f.boardFile, tell("A file of that page", ofModels, map[string]openapi.Schema{"text/javascript": {"type": "string"}, "text/css": {"type": "string"}}))
	get("/video", f.videoPage, tell("The page of video streams", ofAny, text("text/html")))
	get("/video/{file}", f.videoPage, tell("A file of that page", ofModels, map[string]openapi.Schema{"text/javascript": {"type": "string"}, "text/css": {"type": "string"}}))
}
