// Package route is what is said of a path: who serves it, and what /openapi.json tells of it.
package route

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

// Route is a method of a path, who serves it, and what is told of it.
type Route struct {
	Method, Pattern string       // the router's
	Serve           http.Handler // nil: a handler of several methods or paths does
	Told            []Operation
}

// Get and Post are the routes of a path whose handler takes exchanges.
func Get(path string, h func(*exchange.Exchange, *http.Request), told ...Operation) Route {
	return Route{http.MethodGet, path, exchange.Handle(h), told}
}

// Post is Get of the other method.
func Post(path string, h func(*exchange.Exchange, *http.Request), told ...Operation) Route {
	return Route{http.MethodPost, path, exchange.Handle(h), told}
}

// Operation is one of a route's, which has several where a star of its pattern stands for paths of several forms.
type Operation struct {
	openapi.Operation
	Forms    []pooling.Dialect // of errors; none: as the path's are
	statuses []int             // of errors, in OpenAI's words
}

// Statuses that requests are refused with, by what they are: any, those of a model, those with a body, those that run, those of admins.
var (
	OfAny    = []int{500, 503}
	OfModels = []int{404, 500, 503}
	OfBodies = []int{400, 404, 408, 413, 415, 429, 500, 503}
	OfRuns   = []int{400, 404, 408, 413, 415, 429, 500, 503, 504}
	OfAdmins = []int{400, 403, 404, 408, 409, 413, 415, 429, 500, 503}
)

// Answers is what of Go is encoded to JSON.
func Answers[Of any]() map[string]openapi.Schema {
	return InJSON(fields.Answer(reflect.TypeFor[Of]()))
}

// InJSON is an answer of a schema.
func InJSON(s openapi.Schema) map[string]openapi.Schema {
	return map[string]openapi.Schema{"application/json": s}
}

// Object is an answer of some JSON object.
func Object() map[string]openapi.Schema { return InJSON(openapi.Schema{"type": "object"}) }

// Texts is an answer of text, of one of some types.
func Texts(kinds ...string) map[string]openapi.Schema {
	of := map[string]openapi.Schema{}
	for _, kind := range kinds {
		of[kind] = openapi.Schema{"type": "string"}
	}
	return of
}

// Bytes is an answer of a type that is no text.
func Bytes(kind string) map[string]openapi.Schema {
	return map[string]openapi.Schema{kind: {"type": "string", "format": "binary"}}
}

// Tell makes an operation. Its path is the route's, unless it is given one.
func Tell(about string, statuses []int, answer map[string]openapi.Schema, bodies ...openapi.Schema) Operation {
	return Operation{openapi.Operation{About: about, Answer: answer, Bodies: bodies}, nil, statuses}
}

// At gives the operation a path, as OpenAPI has it.
func (o Operation) At(path string) Operation {
	o.Path = path
	return o
}

// With gives it parameters, which are texts and may be left out.
func (o Operation) With(query ...string) Operation {
	o.Query = query
	return o
}

// MayBeEmpty lets its body be left out.
func (o Operation) MayBeEmpty() Operation {
	o.Optional = true
	return o
}

// Streamed adds the server-sent events that a request with stream is answered with.
func (o Operation) Streamed(event string) Operation {
	o.Answer["text/event-stream"] = openapi.Schema{
		"type":        "string",
		"description": "With stream: events, the data of each " + event + " as in an answer, and [DONE] behind the last. An error that comes after the first event is an event, too.",
	}
	return o
}

// Probing has the same body when it says no.
func (o Operation) Probing() Operation {
	o.Refusals = []openapi.Refusal{{Status: http.StatusServiceUnavailable, Body: o.Answer["application/json"]}}
	return o
}

// Rest is what of the path stands for the star of the route: a name, in which a client may have escaped the slashes.
func Rest(r *http.Request) string {
	name := chi.URLParam(r, "*")
	if r.URL.RawPath == "" {
		return name
	}
	if plain, err := url.PathUnescape(name); err == nil {
		return plain
	}
	return name
}

// CutLast cuts a path before its last slash.
func CutLast(path string) (before, last string) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 0)], path[i+1:]
}
