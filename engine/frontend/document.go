package frontend

import (
	"cmp"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/decisions"
	"github.com/prefillonly/prefillonly/engine/api/fields"
	"github.com/prefillonly/prefillonly/engine/api/forms"
	"github.com/prefillonly/prefillonly/engine/api/openapi"
	"github.com/prefillonly/prefillonly/engine/api/pooling"
	"github.com/prefillonly/prefillonly/engine/api/recognition"
	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
)

// documentOf is what routes tell, as OpenAPI has it. Models are the names that requests may give, keyed says whether they need keys.
func documentOf(routes []route, models []string, version string, keyed bool) map[string]any {
	shapes := map[string]fields.Schema{"ModelName": {"type": "string", "enum": models}}
	for _, more := range []map[string]fields.Schema{api.Shapes(), forms.Shapes(), pooling.Shapes(), decisions.Shapes(), recognition.Shapes()} {
		maps.Copy(shapes, more)
	}
	s := openapi.Server{
		Title: "prefillonly", About: "Work that is one forward pass, under the APIs of OpenAI, vLLM, text-embeddings-inference and others. Fields that are not listed are passed over.",
		Version: cmp.Or(version, "unknown"), Keyed: keyed, Shapes: shapes,
	}
	for _, r := range routes {
		for _, o := range r.Told {
			o.Method, o.Path = r.Method, cmp.Or(o.Path, r.Pattern)
			o.Open, o.Basic = isOpen(o.Path), isBrowsed(o.Method, o.Path)
			o.refusals(s.Keyed)
			s.Operations = append(s.Operations, o.Operation)
		}
	}
	return openapi.Document(s)
}

// fieldsOf are those that bodies of each path may have, in lower case.
func fieldsOf(routes []route) map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for _, r := range routes {
		for _, o := range r.Told {
			path := cmp.Or(o.Path, r.Pattern)
			for _, body := range o.Bodies {
				properties, _ := body["properties"].(fields.Schema)
				if all[path] == nil {
					all[path] = map[string]bool{}
				}
				for name := range properties {
					all[path][strings.ToLower(name)] = true
				}
			}
		}
	}
	return all
}

// refusals are what the operation's statuses are in the words of its API.
func (o *operation) refusals(keyed bool) {
	statuses := slices.Clone(o.statuses)
	if keyed && !o.Open {
		statuses = append(statuses, http.StatusUnauthorized)
		if o.Basic {
			statuses = append(statuses, http.StatusForbidden)
		}
	}
	if o.statuses == nil {
		statuses = append(statuses, http.StatusInternalServerError)
	}
	known := map[string]bool{}
	for _, status := range statuses {
		for _, say := range o.Words() {
			for _, code := range []string{"", pooling.CodeEmpty} {
				if status, body := say(status, &api.Error{Code: code}); !known[refusalKey(status, body)] {
					known[refusalKey(status, body)] = true
					o.Refusals = append(o.Refusals, openapi.Refusal{Status: status, Body: fields.Answer(reflect.Indirect(reflect.ValueOf(body)).Type())})
				}
			}
		}
	}
}

func refusalKey(status int, body any) string {
	return http.StatusText(status) + reflect.TypeOf(body).String()
}

// Words are those in which an operation's errors may come.
func (o *operation) Words() []exchange.Words {
	if o.Forms == nil {
		return []exchange.Words{exchange.WordsOf(o.Path)}
	}
	var all []exchange.Words
	for _, form := range o.Forms {
		all = append(all, form.Error)
	}
	return all
}
