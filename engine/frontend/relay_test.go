package frontend

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/apikey"
	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
	"github.com/prefillonly/prefillonly/internal/httpserve"
)

// askRelay has a relay answer a request with the key of an owner.
func askRelay(relay relay, path, body string, owner apikey.Owner) *httptest.ResponseRecorder {
	shared := exchange.NewShared(exchange.Config{MaxBody: 1 << 20, Draining: func() bool { return false }, Log: zap.NewNop()})
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer key")
	r.Header.Set(ownerHeader, "another")
	r.Header.Set(adminHeader, "true")
	answer := httptest.NewRecorder()
	x, w, r := shared.Begin(answer, r)
	defer x.End()
	x.Owner = owner
	relay.ServeHTTP(w, r)
	return answer
}

func relays(socket string) map[string]relay {
	never := func(func()) (stop func() bool) { return func() bool { return true } }
	return map[string]relay{"/v1/files": newBatchRelay(socket, zap.NewNop()), "/v1/video/streams": newVideoRelay(socket, never, zap.NewNop())}
}

// TestRelay holds that a process is told the owner of a request, and whether that is an admin, whatever the client says; and no key ever.
func TestRelay(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	process := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Said", r.Header.Get("Authorization")+r.Header.Get(ownerHeader)+" "+r.Header.Get(adminHeader))
		_, _ = w.Write(append([]byte(r.URL.Path+" "), body...))
	}))
	process.Listener = listener
	process.Start()
	defer process.Close()
	keys, err := apikey.NewRing([]string{"key", "chief @admin"}, "", apikey.IsolateKeys)
	if err != nil {
		t.Fatal(err)
	}
	for path, relay := range relays(socket) {
		for key, admin := range map[string]string{"key": " false", "chief": " true"} {
			owner, _ := keys.Find(key)
			if w := askRelay(relay, path, "body", owner); w.Code != http.StatusOK || w.Body.String() != path+" body" || w.Header().Get("Said") != owner.ID()+admin {
				t.Errorf("%s: %d %s, of owner %q, want %q", path, w.Code, w.Body, w.Header().Get("Said"), owner.ID()+admin)
			}
		}
	}
}

// TestAskerOfFigures: the process that keeps video streams is told who asks for their figures; where no key is an admin's, each may see all.
func TestAskerOfFigures(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan string, 1)
	process := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get(ownerHeader) + " " + r.Header.Get(adminHeader)
	}))
	process.Listener = listener
	process.Start()
	defer process.Close()
	for entries, admins := range map[string]map[string]string{"key,other": {"key": " true"}, "key,chief @admin": {"key": " false", "chief": " true"}, "": {"": " true"}} {
		keys := &apikey.Ring{}
		if entries != "" {
			if keys, err = apikey.NewRing(strings.Split(entries, ","), "", apikey.IsolateKeys); err != nil {
				t.Fatal(err)
			}
		}
		f, _ := newFrontend(t, Config{Keys: keys, Video: socket}, nil)
		for key, admin := range admins {
			owner, _ := keys.Find(key)
			w := do(f, http.MethodGet, "/metrics", "", "Authorization", "Bearer "+key, ownerHeader, "another", adminHeader, "true")
			if got := <-asked; w.Code != http.StatusOK || got != owner.ID()+admin {
				t.Errorf("%q of %q: %d, asked by %q, want %q", key, entries, w.Code, got, owner.ID()+admin)
			}
		}
	}
}

// TestAbsentProcess holds that a request is refused for now while the process is away.
func TestAbsentProcess(t *testing.T) {
	for path, relay := range relays(filepath.Join(t.TempDir(), "absent")) {
		w := askRelay(relay, path, "", apikey.Owner{})
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), "is being started again") || strings.Contains(w.Body.String(), "absent") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// TestStartingUntilListened holds that a process is starting until it has listened once, and not again when it is away later.
func TestStartingUntilListened(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false) // as of a process that was killed
	stale.Close()
	before := relays(socket)
	for path, relay := range before {
		if reason := relay.Starting(); !strings.Contains(reason, "is starting") {
			t.Errorf("%s: %q with nobody at the socket", path, reason)
		}
	}
	if err := os.Remove(socket); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	for path, relay := range before {
		if reason := relay.Starting(); reason != "" {
			t.Errorf("%s: %q of a process that listens", path, reason)
		}
	}
	listener.Close()
	for path, relay := range before {
		if reason := relay.Starting(); reason != "" {
			t.Errorf("%s: %q of a process that has listened", path, reason)
		}
	}
}

// TestAnswerBeforeBodysEnd holds that an answer ends although its request's body has not, and nothing more comes of that: by HTTP/1 and HTTP/2.
func TestAnswerBeforeBodysEnd(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	process := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		http.Error(w, "there is no such stream", http.StatusNotFound)
	}))
	process.Listener = listener
	process.Start()
	defer process.Close()
	for path, relay := range relays(socket) {
		base := serveRelay(t, relay)
		for _, second := range []bool{false, true} {
			protocols := &http.Protocols{}
			protocols.SetHTTP1(!second)
			protocols.SetUnencryptedHTTP2(second)
			transport := &http.Transport{Protocols: protocols}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			body, says := io.Pipe()
			go func() { _, _ = says.Write([]byte("hello")) }() // ended by the Close of body
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path+"/nosuch/camera", body)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := transport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusNotFound || string(text) != "there is no such stream\n" {
				t.Errorf("%s, HTTP/2 %t: %d %q, %v", path, second, answer.StatusCode, text, err)
			}
			cancel()
			_, _ = answer.Body.Close(), body.Close()
			transport.CloseIdleConnections()
		}
	}
}

// serveRelay has a frontend's server answer by a relay until the test ends, and returns its address.
func serveRelay(t *testing.T, relay relay) string {
	shared := exchange.NewShared(exchange.Config{MaxBody: 1 << 20, Draining: func() bool { return false }, Log: zap.NewNop()})
	server := httpserve.New(httpserve.Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x, w, r := shared.Begin(w, r)
		defer x.End()
		relay.ServeHTTP(w, r)
	}), zap.NewNop())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- server.Serve(ctx, listener) }() // ended below
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "http://" + listener.Addr().String()
}
