package frontend

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/openapi"
	"github.com/prefillonly/prefillonly/internal/mutate"
)

// posted is a body, and the path and the model that it was written for.
type posted struct {
	path, model, body string
	binary            int // bytes of the body that follow its JSON
}

// oddBodies are no requests at all.
var oddBodies = []string{
	"", "{", "null", "[]", "7", `""`, `{"a":`, "\xff\xfe", `{"input":"\ud800"}`, strings.Repeat("[", 20000),
	`{"input":` + strings.Repeat(`[`, 9999) + strings.Repeat(`]`, 9999) + `}`,
}

// postedBodies are those of the tables and samples of this package and of those that decode bodies.
func postedBodies(t testing.TB) []posted {
	t.Helper()
	var list []posted
	for _, c := range overlongBodies {
		list = append(list, posted{path: c.path, model: c.model, body: "{" + strings.NewReplacer("LONG", "ab", "IDS", "97,98").Replace(c.body) + "}"})
	}
	list = append(list, sampleBodies(t, "testdata/*.json")...)
	list = append(list, sampleBodies(t, "../api/pooling/testdata/*.json")...)
	list = append(list, sampleBodies(t, "../api/completions/testdata/*.json")...)
	for _, body := range oddBodies {
		list = append(list, posted{path: "/v1/embeddings", model: "embedder", body: body})
	}
	return list
}

// pathOf are the paths of the samples that say only what kind they are.
var pathOf = map[string]string{"completion": "/v1/completions", "chat": "/v1/chat/completions", "tokenize": "/tokenize", "detokenize": "/detokenize"}

// sampleBodies are those of files that have one, and say where it goes to.
func sampleBodies(t testing.TB, pattern string) (list []posted) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) < 10 {
		t.Fatalf("%s: %d files, %v", pattern, len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var s struct {
			Kind, Path, Raw string
			Body            json.RawMessage
		}
		if err := json.Unmarshal(text, &s); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if body := cmp.Or(s.Raw, unnamed(s.Body)); body != "" {
			path := cmp.Or(s.Path, pathOf[s.Kind])
			list = append(list, posted{path: path, model: modelFor(path), body: body})
		}
	}
	return list
}

// modelFor is the model of the table's first body for a path.
func modelFor(path string) string {
	for _, c := range overlongBodies {
		if c.path == path {
			return c.model
		}
	}
	return "lm"
}

// unnamed is a body that leaves the model to the server, which has one.
func unnamed(body []byte) string {
	var object map[string]json.RawMessage
	if json.Unmarshal(body, &object) != nil || object["model"] == nil {
		return string(body)
	}
	delete(object, "model")
	out, err := json.Marshal(object)
	if err != nil {
		return string(body)
	}
	return string(out)
}

// postPaths are the paths that take a body, of each name of a model, with the forms of the errors that /openapi.json tells of each.
func postPaths(t testing.TB, f *Frontend) (paths []string, forms map[string][]string) {
	t.Helper()
	forms = map[string][]string{}
	for _, r := range f.routeTable() {
		if r.Method != http.MethodPost {
			continue
		}
		for _, told := range r.Told {
			for _, model := range f.models.Aliases() {
				path := strings.ReplaceAll(cmp.Or(told.Path, r.Pattern), "{model}", model)
				if forms[path] != nil {
					continue
				}
				of := told
				of.Path = path
				paths, forms[path] = append(paths, path), toldForms(t, &of)
			}
		}
	}
	slices.Sort(paths)
	return paths, forms
}

func toldForms(t testing.TB, o *operation) (forms []string) {
	t.Helper()
	for _, say := range o.Words() {
		_, body := say(http.StatusBadRequest, api.Invalid("p", "m"))
		text, err := json.Marshal(body)
		form, message := formOf(text)
		if err != nil || message != "m" {
			t.Fatalf("%s: %s, %v", o.Path, text, err)
		}
		forms = append(forms, form)
	}
	return forms
}

// formOf is the form of an error, by the names of its members, and its message.
func formOf(body []byte) (form, message string) {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil {
		return "no object", ""
	}
	names := slices.Sorted(maps.Keys(members))
	for _, name := range []string{"message", "error"} {
		if members[name] == nil || json.Unmarshal(members[name], &message) == nil {
			continue
		}
		var inner map[string]json.RawMessage
		if json.Unmarshal(members[name], &inner) == nil && json.Unmarshal(inner["message"], &message) == nil {
			names = append(names, slices.Sorted(maps.Keys(inner))...)
		}
	}
	return strings.Join(names, " "), message
}

// FuzzBodies holds that no body does harm on any path of any kind of model: each is answered with JSON, or refused as the path's
// API refuses, and nothing is left of it.
func FuzzBodies(f *testing.F) {
	front, _ := newEvery(f, 0)
	_, forms := postPaths(f, front)
	for _, c := range postedBodies(f) {
		f.Add(c.path, uint8(kindOf(c.model)), []byte(c.body))
	}
	f.Fuzz(func(t *testing.T, path string, kind uint8, body []byte) {
		if forms[path] != nil {
			front, _ := newEvery(t, int(kind)%len(everyModel))
			harmless(t, front, path, forms[path], string(body))
		}
	})
}

// TestBodiesOfOtherPaths sends every body to every path.
func TestBodiesOfOtherPaths(t *testing.T) {
	bodies := postedBodies(t)
	for kind := range everyModel {
		front, _ := newEvery(t, kind)
		paths, forms := postPaths(t, front)
		if len(paths) < 35 {
			t.Fatalf("%d paths", len(paths))
		}
		answered := 0
		for _, path := range paths {
			for _, c := range bodies {
				if harmless(t, front, path, forms[path], c.body) == http.StatusOK {
					answered++
				}
			}
		}
		if answered < 300 {
			t.Errorf("%s: %d bodies were answered", everyModel[kind].name, answered)
		}
	}
}

// harmless posts a body, and returns the status of the answer.
func harmless(t *testing.T, f *Frontend, path string, forms []string, body string) int {
	t.Helper()
	w := do(f, http.MethodPost, path, body)
	if why := unfit(w, path, forms); why != "" || openJobs(f) != 0 || f.shared.Held() != 0 {
		t.Errorf("%s %.300q: %s; %d jobs, %d bytes: status %d, %.300s", path, body, why, openJobs(f), f.shared.Held(), w.Code, w.Body)
	}
	return w.Code
}

// unfit is what is wrong with an answer.
func unfit(w *httptest.ResponseRecorder, path string, forms []string) string {
	body := w.Body.Bytes()
	switch {
	case strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream"):
		if !bytes.HasSuffix(body, []byte("data: [DONE]\n\n")) {
			return "the stream does not end"
		}
	case !json.Valid(body):
		return "the answer is no JSON"
	case w.Code == http.StatusOK:
	case w.Code < 400 || w.Code >= 500:
		return "the status"
	default:
		if form, message := formOf(body); message == "" || !slices.Contains(forms, form) {
			return fmt.Sprintf("the error has the form of %q, not of %q", form, forms)
		}
		if len(body) > 16<<10 {
			return fmt.Sprintf("an error of %d bytes", len(body))
		}
	}
	return ""
}

// TestHostileMembers gives every member that a path knows of every such value, beside a body that is answered.
func TestHostileMembers(t *testing.T) {
	sent := 0
	for _, c := range overlongBodies {
		front, _ := newEvery(t, kindOf(c.model))
		_, forms := postPaths(t, front)
		good := fill(strings.ReplaceAll(c.body, "LONG", "ab"), 2)
		if got := harmless(t, front, c.path, forms[c.path], "{"+good+"}"); got != http.StatusOK && c.path != "/v1/decisions" && c.path != "/v1/systemone" { // whose questions are too long
			t.Errorf("%s %s: status %d", c.path, good, got)
		}
		for _, name := range members(front, c.path) {
			for _, value := range mutate.JSON {
				body := fmt.Sprintf("{%s,%q:%s}", good, name, value)
				if strings.Contains(good, `"`+name+`":`) { // a member may be there once
					body = replaced(t, good, name, value)
				}
				harmless(t, front, c.path, forms[c.path], body)
				sent++
			}
		}
	}
	if sent < 10000 {
		t.Errorf("%d bodies", sent)
	}
}

// members are the names that a path's bodies may have.
func members(f *Frontend, path string) []string {
	names := map[string]bool{}
	for _, r := range f.routeTable() {
		if r.Method == http.MethodPost && r.Pattern == path {
			for _, body := range r.Told[0].Bodies {
				for name := range body["properties"].(openapi.Schema) {
					names[name] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func replaced(t *testing.T, good, name, value string) string {
	t.Helper()
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte("{"+good+"}"), &object); err != nil {
		t.Fatal(err)
	}
	delete(object, name)
	rest, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("{%q:%s%s", name, value, strings.Replace(","+string(rest[1:]), ",}", "}", 1))
}
