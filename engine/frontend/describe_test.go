package frontend

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/prefillonly/prefillonly/engine/frontend/registry"
)

// TestDocumentHasEveryRoute: what the router serves is told of, and nothing else.
func TestDocumentHasEveryRoute(t *testing.T) {
	f, _ := newFrontend(t, Config{Keys: ring(t, "key"), DevMode: true, Video: "video.sock", Batches: "batches.sock"}, nil)
	relayed := map[string][]string{"/v1/video/*": {"GET", "POST", "DELETE"}} // methods that are told of, of paths with one handler for all
	for _, path := range f.relays[1].Paths {
		relayed[path] = []string{"GET"}
	}
	told := map[string]bool{}
	for path, operations := range f.apiDocument(f.documentedModels())["paths"].(map[string]map[string]any) {
		for method := range operations {
			told[strings.ToUpper(method)+" "+path] = true
		}
	}
	var routes []string
	err := chi.Walk(f.newRouter().(chi.Router), func(method, pattern string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		routes = append(routes, method+" "+pattern)
		return nil
	})
	if err != nil || len(routes) < 40 {
		t.Fatalf("%d routes: %v", len(routes), err)
	}
	matched := map[string]bool{}
	for _, r := range routes {
		begin, star := strings.CutSuffix(r, "*")
		found := false
		for operation := range told {
			if operation == r || star && strings.HasPrefix(operation, begin) {
				matched[operation], found = true, true
			}
		}
		method, pattern, _ := strings.Cut(r, " ")
		if methods := relayed[pattern]; !found && (methods == nil || slices.Contains(methods, method)) {
			t.Errorf("%s is served and not in the document", r)
		}
	}
	for operation := range told {
		if !matched[operation] {
			t.Errorf("%s is in the document and not served", operation)
		}
	}
}

// TestDocumentIsBehindTheKey: but what it says of itself holds: open paths are marked, the others ask for a key.
func TestDocumentIsBehindTheKey(t *testing.T) {
	f, _ := newFrontend(t, Config{Keys: ring(t, "key")}, nil)
	var document struct {
		Paths map[string]map[string]struct {
			Security  []map[string][]string
			Responses map[string]any
		}
	}
	body, err := json.Marshal(f.apiDocument(f.documentedModels()))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(body, &document); err != nil {
		t.Fatal(err)
	}
	for path, operations := range document.Paths {
		for method, o := range operations {
			if (len(o.Security) == 0) != isOpen(path) || (o.Responses["401"] == nil) != isOpen(path) {
				t.Errorf("%s %s: security %v, and it is open: %v", method, path, o.Security, isOpen(path))
			}
		}
	}
}

// TestDocumentIsEncodedOnce: all who ask get the same bytes, until the models change.
func TestDocumentIsEncodedOnce(t *testing.T) {
	f, _ := newFrontend(t, Config{}, nil)
	first, err := f.apiDescription()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := f.apiDescription(); err != nil || &again[0] != &first[0] {
		t.Errorf("it was encoded again, %v", err)
	}
	if w := do(f, http.MethodGet, "/openapi.json", ""); w.Body.String() != string(first) || w.Code != http.StatusOK {
		t.Errorf("/openapi.json: %d, %d bytes of %d", w.Code, w.Body.Len(), len(first))
	}
	other := demo(byteTokenizer{})
	other.Names = []string{"another"}
	if err := f.SetModels([]registry.Model{other}); err != nil {
		t.Fatal(err)
	}
	if now, err := f.apiDescription(); err != nil || !strings.Contains(string(now), `"another"`) {
		t.Errorf("after the models changed it says %.200s, %v", now, err)
	}
}
