package frontend

import (
	"cmp"
	"maps"
	"net/http"
	"reflect"
	"slices"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/decisions"
	"github.com/prefillonly/prefillonly/engine/api/fields"
	"github.com/prefillonly/prefillonly/engine/api/forms"
	"github.com/prefillonly/prefillonly/engine/api/openapi"
	"github.com/prefillonly/prefillonly/engine/api/pooling"
)

// describeAPI answers /openapi.json.
func (f *Frontend) describeAPI(x *exchange, _ *http.Request) {
	f.writeJSON(x, http.StatusOK, f.document())
}

func (f *Frontend) document() map[string]any {
	shapes := map[string]fields.Schema{"ModelName": f.modelName()}
	for _, more := range []map[string]fields.Schema{api.Shapes(), forms.Shapes(), pooling.Shapes(), decisions.Shapes()} {
		maps.Copy(shapes, more)
	}
	s := openapi.Server{
		Title: "prefillonly", About: "Work that is one forward pass, under the APIs of OpenAI, vLLM, text-embeddings-inference and others. Fields that are not listed are passed over.",
		Version: cmp.Or(f.cfg.Version, "unknown"), Keyed: !f.cfg.Keys.Empty(), Shapes: shapes,
	}
	table := f.table()
	if f.video != nil {
		table = append(table, videoRoutes()...)
	}
	if f.batches != nil {
		table = append(table, batchRoutes()...)
	}
	for _, r := range table {
		for _, o := range r.told {
			o.Method, o.Path = r.method, cmp.Or(o.Path, r.pattern)
			o.Open, o.Basic = open[o.Path], browsedPath(o.Method, o.Path)
			o.refusals(s.Keyed)
			s.Operations = append(s.Operations, o.Operation)
		}
	}
	return openapi.Document(s)
}

// modelName is one of those that are served. It may be left out where there is one model.
func (f *Frontend) modelName() fields.Schema {
	names := slices.Sorted(maps.Keys(f.models.Load().byName))
	if len(f.models.Load().list) == 1 {
		names = append(names, "")
	}
	return fields.Schema{"type": "string", "enum": names}
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
		for _, say := range o.words() {
			for _, code := range []string{"", pooling.CodeEmpty} {
				if status, body := say(status, &api.Error{Code: code}); !known[key(status, body)] {
					known[key(status, body)] = true
					o.Refusals = append(o.Refusals, openapi.Refusal{Status: status, Body: fields.Answer(reflect.Indirect(reflect.ValueOf(body)).Type())})
				}
			}
		}
	}
}

func key(status int, body any) string {
	return http.StatusText(status) + reflect.TypeOf(body).String()
}

// words are those in which an operation's errors may come.
func (o *operation) words() []errorBody {
	if o.forms == nil {
		return []errorBody{errorsOf(o.Path)}
	}
	var all []errorBody
	for _, form := range o.forms {
		all = append(all, form.Error)
	}
	return all
}

// videoPaths are those of the process that keeps video streams.
const videoPaths = "/v1/video/*"

// videoRoutes are what is told of them.
func videoRoutes() []route {
	refused := []int{400, 404, 408, 409, 413, 415, 429, 500, 503}
	one, streams := "/v1/video/streams/{name}", "/v1/video/streams"
	object := inJSON(openapi.Schema{"type": "object"})
	events := map[string]openapi.Schema{"text/event-stream": {"type": "string", "description": "Events whose data are results of frames."}, "application/x-ndjson": {"type": "string", "description": "The same, a line each."}}
	declare := tell("Declares a stream", refused, object, openapi.Schema{"type": "object", "required": []string{"name"}}).at(streams)
	declare.Status = http.StatusCreated
	told := func(method string, o operation) route {
		return route{method: method, pattern: videoPaths, told: []operation{o}}
	}
	return []route{
		told(http.MethodPost, declare),
		told(http.MethodGet, tell("How streams are", refused, object).at(streams)),
		told(http.MethodGet, tell("How a stream is", refused, object).at(one)),
		told(http.MethodDelete, tell("Ends a stream, and forgets it", refused, object).at(one)),
		told(http.MethodGet, tell("The results of a stream as they come", refused, events).at(one+"/results").query("after")),
		told(http.MethodGet, tell("The frame that was seen last", refused, map[string]openapi.Schema{"image/jpeg": {"type": "string", "format": "binary"}}).at(one+"/frame.jpg")),
		told(http.MethodGet, tell("How a camera encoded its last segments", refused, object).at(one+"/segments").query("after")),
		told(http.MethodPost, tell("A camera program's session: its messages in the body, the server's in the answer, both at once", refused, map[string]openapi.Schema{"application/octet-stream": {"type": "string", "format": "binary"}}).at(one+"/camera")),
	}
}

// indexRequest is the body of the repository's index.
type indexRequest struct {
	Ready bool `json:"ready" default:"false"`
}
