package frontend

import (
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/prefillonly/prefillonly/engine/api/fields"
	"github.com/prefillonly/prefillonly/engine/api/openapi"
	"github.com/prefillonly/prefillonly/engine/api/pooling"
	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
)

// route is a method of a path, who serves it, and what is told of it.
type route struct {
	Method, Pattern string       // the router's
	Serve           http.Handler // nil: a handler of several methods or paths does
	Told            []operation
}

// getRoute and Post are the routes of a path whose handler takes exchanges.
func getRoute(path string, h func(*exchange.Exchange, *http.Request), told ...operation) route {
	return route{http.MethodGet, path, exchange.Handle(h), told}
}

// postRoute is Get of the other method.
func postRoute(path string, h func(*exchange.Exchange, *http.Request), told ...operation) route {
	return route{http.MethodPost, path, exchange.Handle(h), told}
}

// operation is one of a route's, which has several where a star of its pattern stands for paths of several forms.
type operation struct {
	openapi.Operation
	Forms    []pooling.Dialect // of errors; none: as the path's are
	statuses []int             // of errors, in OpenAI's words
}

// Statuses that requests are refused with, by what they are: any, those of a model, those with a body, those that run, those of admins.
var (
	ofAny    = []int{500, 503}
	ofModels = []int{404, 500, 503}
	ofBodies = []int{400, 404, 408, 413, 415, 429, 500, 503}
	ofRuns   = []int{400, 404, 408, 413, 415, 429, 500, 503, 504}
	ofAdmins = []int{400, 403, 404, 408, 409, 413, 415, 429, 500, 503}
)

// answerOf is what of Go is encoded to JSON.
func answerOf[Of any]() map[string]openapi.Schema {
	return inJSON(fields.Answer(reflect.TypeFor[Of]()))
}

// inJSON is an answer of a schema.
func inJSON(s openapi.Schema) map[string]openapi.Schema {
	return map[string]openapi.Schema{"application/json": s}
}

// jsonObject is an answer of some JSON object.
func jsonObject() map[string]openapi.Schema { return inJSON(openapi.Schema{"type": "object"}) }

// textsOf is an answer of text, of one of some types.
func textsOf(kinds ...string) map[string]openapi.Schema {
	of := map[string]openapi.Schema{}
	for _, kind := range kinds {
		of[kind] = openapi.Schema{"type": "string"}
	}
	return of
}

// bytesOf is an answer of a type that is no text.
func bytesOf(kind string) map[string]openapi.Schema {
	return map[string]openapi.Schema{kind: {"type": "string", "format": "binary"}}
}

// describeOperation makes an operation. Its path is the route's, unless it is given one.
func describeOperation(about string, statuses []int, answer map[string]openapi.Schema, bodies ...openapi.Schema) operation {
	return operation{openapi.Operation{About: about, Answer: answer, Bodies: bodies}, nil, statuses}
}

// At gives the operation a path, as OpenAPI has it.
func (o operation) At(path string) operation {
	o.Path = path
	return o
}

// With gives it parameters, which are texts and may be left out.
func (o operation) With(query ...string) operation {
	o.Query = query
	return o
}

// MayBeEmpty lets its body be left out.
func (o operation) MayBeEmpty() operation {
	o.Optional = true
	return o
}

// Streamed adds the server-sent events that a request with stream is answered with.
func (o operation) Streamed(event string) operation {
	o.Answer["text/event-stream"] = openapi.Schema{
		"type":        "string",
		"description": "With stream: events, the data of each " + event + " as in an answer, and [DONE] behind the last. An error that comes after the first event is an event, too.",
	}
	return o
}

// Probing has the same body when it says no.
func (o operation) Probing() operation {
	o.Refusals = []openapi.Refusal{{Status: http.StatusServiceUnavailable, Body: o.Answer["application/json"]}}
	return o
}

// restOfPath is what of the path stands for the star of the route: a name, in which a client may have escaped the slashes.
func restOfPath(r *http.Request) string {
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
