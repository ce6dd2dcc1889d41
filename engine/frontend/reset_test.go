package frontend

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/wire"
)

func TestResetPrefixCache(t *testing.T) {
	f, s := newFrontend(t, Config{DevMode: true}, nil)
	for _, c := range []struct {
		held int
		want string
	}{{0, `{"success":true,"dropped_blocks":9,"held_blocks":0}`}, {2, `{"success":false,"dropped_blocks":9,"held_blocks":2}`}} {
		s.Reset = func(m *wire.Reset) *wire.ResetDone {
			return &wire.ResetDone{Serial: m.Serial, Dropped: 9, Held: c.held}
		}
		if w := do(f, http.MethodPost, "/reset_prefix_cache", ""); w.Code != http.StatusOK || w.Body.String() != c.want {
			t.Errorf("status %d: %s, want %s", w.Code, w.Body, c.want)
		}
	}
	s.Reset = nil // and the client does not wait
	gone, leave := context.WithCancel(t.Context())
	leave()
	w := httptest.NewRecorder()
	f.Handler().ServeHTTP(w, httptest.NewRequestWithContext(gone, http.MethodPost, "/reset_prefix_cache", nil))
	if w.Code != 499 {
		t.Errorf("a client that left: status %d", w.Code)
	}
	s.Fail(errors.New("no connection"))
	if w := do(f, http.MethodPost, "/reset_prefix_cache", ""); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "no connection") {
		t.Errorf("without a scheduler: status %d: %s", w.Code, w.Body)
	}
	plain, _ := newFrontend(t, Config{}, nil)
	if w := do(plain, http.MethodPost, "/reset_prefix_cache", ""); w.Code != http.StatusNotFound {
		t.Errorf("without dev mode: status %d", w.Code)
	}
}
