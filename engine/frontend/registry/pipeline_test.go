package registry

import (
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
)

type noPool struct{}

func (noPool) Abandon(string, *engine.Error) {}

// TestPipelinesAreFoundByKind: a request that names a model of another kind is told which would do, and one that names none gets the
// only one of its kind.
func TestPipelinesAreFoundByKind(t *testing.T) {
	g := New(1, noPool{}, zap.NewNop())
	if err := g.Set([]Model{
		{Name: "text"}, {Name: "reads", Names: []string{"alias"}, Pipeline: &Pipeline{Kind: "ocr", Endpoint: "/v1/ocr"}}, {Name: "reads/recognize"},
	}); err != nil {
		t.Fatal(err)
	}
	x, _, r := exchange.NewShared(exchange.Config{Log: zap.NewNop()}).Begin(httptest.NewRecorder(), httptest.NewRequest("POST", "/v1/ocr", nil))
	for _, c := range []struct{ kind, name, want string }{
		{"ocr", "reads", ""}, {"ocr", "alias", ""}, {"ocr", "", ""},
		{"ocr", "text", "the model `text` has no `pipeline: ocr`; ask reads"},
		{"ocr", "reads/recognize", "; ask reads"},
		{"ocr", "nosuch", "nosuch"},
		{"speech", "reads", "`pipeline: speech`, and no other model of the server has"},
		{"speech", "", "names no model"},
	} {
		m, refused := g.Pipeline(x, c.kind, c.name)
		if c.want == "" && (refused != nil || m.Name != "reads") || c.want != "" && (refused == nil || !strings.Contains(refused.Body.Message, c.want)) {
			t.Errorf("%s, %q: %v, %+v, want %q", c.kind, c.name, m, refused, c.want)
		}
	}
	if _, refused := g.Text(r.Context(), x, g.Named("alias")); refused == nil || !strings.Contains(refused.Body.Message, "ask it at /v1/ocr") {
		t.Errorf("asked for text: %+v", refused)
	}
}
