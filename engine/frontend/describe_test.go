package frontend

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
)

// TestDocumentHasEveryRoute: what the router serves is told of, and nothing else.
func TestDocumentHasEveryRoute(t *testing.T) {
	f, _ := newFrontend(t, Config{Keys: ring(t, "key")}, nil)
	f.cfg.DevMode, f.video = true, http.NotFoundHandler()
	told := map[string]bool{}
	for path, operations := range f.document()["paths"].(map[string]map[string]any) {
		for method := range operations {
			told[strings.ToUpper(method)+" "+path] = true
		}
	}
	var routes []string
	err := chi.Walk(f.routes().(chi.Router), func(method, pattern string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
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
		if method, _, _ := strings.Cut(r, " "); !found && !(strings.HasSuffix(r, videoPaths) && !slices.Contains([]string{"GET", "POST", "DELETE"}, method)) {
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
	body, err := json.Marshal(f.document())
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(body, &document); err != nil {
		t.Fatal(err)
	}
	for path, operations := range document.Paths {
		for method, o := range operations {
			if (len(o.Security) == 0) != open[path] || (o.Responses["401"] == nil) != open[path] {
				t.Errorf("%s %s: security %v, and it is open: %v", method, path, o.Security, open[path])
			}
		}
	}
}
