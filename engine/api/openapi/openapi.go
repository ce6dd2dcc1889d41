// Package openapi makes an OpenAPI 3.1 document of what a server's routes say of themselves.
// It is apart because it knows the format and no route: whatever serves paths can tell of them by it.
package openapi

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/prefillonly/prefillonly/engine/api/fields"
)

// Operation is a method of a path.
type Operation struct {
	Method, Path string // as OpenAPI has it: {model} stands for a parameter
	About        string
	Query        []string          // parameters, which are texts and may be left out
	Bodies       []fields.Schema   // of JSON, any of them; none: it takes no body
	Optional     bool              // the body may be left out
	Form         fields.Schema     // of multipart/form-data; nil: it is not taken
	Binary       string            // what a body of application/octet-stream is; empty: it is not taken
	Answer       map[string]Schema // of a 200, by content type; none: it is empty
	Status       int               // of success; 0: 200
	Refusals     []Refusal
	Open         bool // it needs no key
	Basic        bool // the key may come as a password
}

// Schema is a JSON Schema.
type Schema = fields.Schema

// Refusal is a status with its body, of JSON.
type Refusal struct {
	Status int
	Body   Schema
}

// Server is what a document is of.
type Server struct {
	Title, About, Version string
	Keyed                 bool // it asks for keys
	Shapes                map[string]Schema
	Operations            []Operation
}

// Document is the server's, fit for encoding/json.
func Document(s Server) map[string]any {
	paths := map[string]map[string]any{}
	for i := range s.Operations {
		o := &s.Operations[i]
		if paths[o.Path] == nil {
			paths[o.Path] = map[string]any{}
		}
		paths[o.Path][strings.ToLower(o.Method)] = o.openAPIObject(s.Keyed)
	}
	components := map[string]any{"schemas": s.Shapes}
	if s.Keyed {
		components["securitySchemes"] = map[string]any{
			"bearer": map[string]string{"type": "http", "scheme": "bearer", "description": "An API key of the server's."},
			"basic":  map[string]string{"type": "http", "scheme": "basic", "description": "The API key as the password, of any user: for browsers."},
		}
	}
	return map[string]any{
		"openapi":    "3.1.0",
		"info":       map[string]any{"title": s.Title, "version": s.Version, "description": s.About},
		"paths":      paths,
		"components": components,
	}
}

func (o *Operation) openAPIObject(keyed bool) map[string]any {
	out := map[string]any{"summary": o.About, "operationId": o.id(), "responses": o.responses()}
	if parameters := o.parameters(); len(parameters) > 0 {
		out["parameters"] = parameters
	}
	if len(o.Bodies) > 0 || o.Form != nil {
		out["requestBody"] = o.body()
	}
	if keyed && !o.Open {
		security := []any{map[string]any{"bearer": []string{}}}
		if o.Basic {
			security = append(security, map[string]any{"basic": []string{}})
		}
		out["security"] = security
	}
	return out
}

// id is the operation's name, which is its own.
func (o *Operation) id() string {
	words := strings.FieldsFunc(o.Path, func(r rune) bool { return strings.ContainsRune("/{}.", r) })
	return strings.ToLower(o.Method) + "_" + strings.Join(words, "_")
}

func (o *Operation) parameters() []any {
	var list []any
	for part := range strings.SplitSeq(o.Path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			name = strings.TrimSuffix(name, "}")
			list = append(list, newParameter("path", name, true))
		}
	}
	for _, name := range o.Query {
		list = append(list, newParameter("query", name, false))
	}
	return list
}

func newParameter(in, name string, required bool) map[string]any {
	schema := Schema{"type": "string"}
	if name == "model" {
		schema = fields.RefTo("ModelName")
	}
	if in == "path" && name != "model" {
		schema["minLength"] = 1
	}
	return map[string]any{"in": in, "name": name, "required": required, "schema": schema}
}

func (o *Operation) body() map[string]any {
	content := map[string]any{}
	switch len(o.Bodies) {
	case 0:
	case 1:
		content["application/json"] = map[string]any{"schema": o.Bodies[0]}
	default:
		content["application/json"] = map[string]any{"schema": fields.AnyOf(o.Bodies...)}
	}
	if o.Form != nil {
		content["multipart/form-data"] = map[string]any{"schema": o.Form}
	}
	if o.Binary != "" {
		content["application/octet-stream"] = map[string]any{"schema": Schema{"type": "string", "format": "binary", "description": o.Binary}}
	}
	return map[string]any{"required": !o.Optional, "content": content}
}

func (o *Operation) responses() map[string]any {
	content := map[string]any{}
	for kind, schema := range o.Answer {
		content[kind] = map[string]any{"schema": schema}
	}
	of := map[string]any{"description": o.About}
	if len(content) > 0 {
		of["content"] = content
	}
	responses := map[string]any{strconv.Itoa(cmp.Or(o.Status, 200)): of}
	bodies := map[int][]Schema{}
	for _, r := range o.Refusals {
		bodies[r.Status] = append(bodies[r.Status], r.Body)
	}
	for _, status := range slices.Sorted(maps.Keys(bodies)) {
		schema := bodies[status][0]
		if len(bodies[status]) > 1 {
			schema = fields.AnyOf(bodies[status]...)
		}
		responses[strconv.Itoa(status)] = map[string]any{"description": "Refused.", "content": map[string]any{"application/json": map[string]any{"schema": schema}}}
	}
	return responses
}
