package frontend

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prefillonly/prefillonly/engine/wire"
)

func TestResetPrefixCache(t *testing.T) {
	f, s := newFrontend(t, Config{DevMode: true}, nil)
	for _, c := range []struct {
		held int
		want string
	}{{0, `{"success":true,"dropped_blocks":9,"held_blocks":0}`}, {2, `{"success":false,"dropped_blocks":9,"held_blocks":2}`}} {
		s.reset = func(m *wire.Reset) *wire.ResetDone {
			return &wire.ResetDone{Serial: m.Serial, Dropped: 9, Held: c.held}
		}
		if w := do(f, http.MethodPost, "/reset_prefix_cache", ""); w.Code != http.StatusOK || w.Body.String() != c.want {
			t.Errorf("status %d: %s, want %s", w.Code, w.Body, c.want)
		}
	}
	s.reset = nil // and the client does not wait
	gone, leave := context.WithCancel(t.Context())
	leave()
	w := httptest.NewRecorder()
	f.Handler().ServeHTTP(w, httptest.NewRequestWithContext(gone, http.MethodPost, "/reset_prefix_cache", nil))
	if w.Code != statusClientClosed || len(f.resets.waiting) != 0 {
		t.Errorf("status %d, %d requests wait", w.Code, len(f.resets.waiting))
	}
	f.deliver(&wire.ResetDone{Serial: 3}) // too late
	plain, _ := newFrontend(t, Config{}, nil)
	if w := do(plain, http.MethodPost, "/reset_prefix_cache", ""); w.Code != http.StatusNotFound {
		t.Errorf("without dev mode: status %d", w.Code)
	}
}
