package video

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestDeclareWaitsForProcess holds that a 503 with Retry-After is asked again, and one without is the end.
func TestDeclareWaitsForProcess(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusCreated)
	}))
	defer server.Close()
	d := demo{out: io.Discard, ended: make(chan error)}
	if rate, err := d.declareStream(t.Context(), server.URL); rate != clipRate || err != nil || asked != 2 {
		t.Errorf("rate %d, error %v after %d requests, want %d frames a second after 2", rate, err, asked, clipRate)
	}
	gone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer gone.Close()
	if _, err := d.declareStream(t.Context(), gone.URL); err == nil {
		t.Error("a 503 without Retry-After was no error")
	}
}
