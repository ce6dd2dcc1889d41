package frontend

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/apikey"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/httpserve"
)

// serveProxy runs f on a port of its own. The returned function drains it and returns what Serve did.
func serveProxy(t *testing.T, f *Frontend) (address string, stop func() error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- serveOn(ctx, f, listener) }()
	return listener.Addr().String(), func() error {
		cancel()
		return <-served
	}
}

// exchangeRaw writes text to a new connection and reads the response to it.
func exchangeRaw(t *testing.T, address, text string, halfClose bool) (*http.Response, string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	if halfClose {
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
	}
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil)
	for err == nil && response.StatusCode == http.StatusContinue {
		response, err = http.ReadResponse(reader, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

func head(length int) string {
	return fmt.Sprintf("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", length)
}

// TestBadConnections holds that each kind of bad client gets a clear answer, and that the server
// serves on.
func TestBadConnections(t *testing.T) {
	f, _ := newFrontend(t, Config{MaxBody: 1 << 20, HTTP: httpserve.Config{BodyTimeout: 100 * time.Millisecond}}, say("Y", engine.FinishLength))
	address, stop := serveProxy(t, f)
	good := `{"prompt":"a","max_tokens":1}`
	for _, c := range []struct {
		name, text string
		halfClose  bool
		status     int
		says       string
	}{
		{"huge length", head(100 << 20), false, 413, "104857600 bytes; the limit is 1048576"},
		{"huge chunks", strings.Replace(head(0), "Content-Length: 0", "Transfer-Encoding: chunked", 1) + "180000\r\n" + strings.Repeat(" ", 0x180000) + "\r\n0\r\n\r\n", false, 413, "more than 1048576 bytes"},
		{"slow body", head(1000) + "{", false, 408, "within 100ms; 1 bytes"},
		{"half closed in the body", head(1000) + `{"prompt"`, true, 400, "after 9 of 1000 bytes"},
		{"not HTTP", "hello\r\n\r\n", false, 400, ""},
		{"good", head(len(good)) + good, false, 200, `"text":"Y"`},
	} {
		response, body := exchangeRaw(t, address, c.text, c.halfClose)
		if response.StatusCode != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%s: status %d: %s", c.name, response.StatusCode, body)
		}
	}
	if held := f.shared.Held(); held != 0 {
		t.Errorf("%d bytes of bodies are still counted", held)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestHalfClosedWaits holds that a client that closes its sending side once its request is sent gets the
// answer, also when the server sees that long before there is one.
func TestHalfClosedWaits(t *testing.T) {
	f, s := newFrontend(t, Config{}, nil)
	address, stop := serveProxy(t, f)
	go func() {
		<-s.Heard
		time.Sleep(50 * time.Millisecond)
		submits, _ := s.Seen()
		f.pool.Deliver(token(submits[0].ID, 0, 'Y', engine.FinishLength))
	}()
	response, body := exchangeRaw(t, address, head(14)+`{"prompt":"a"}`, true)
	if response.StatusCode != http.StatusOK || !strings.Contains(body, `"text":"Y"`) {
		t.Errorf("status %d: %s", response.StatusCode, body)
	}
	if _, cancels := s.Seen(); len(cancels) != 0 {
		t.Errorf("cancelled %v", cancels)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestDisconnectCancels(t *testing.T) {
	f, s := newFrontend(t, Config{}, nil)
	address, stop := serveProxy(t, f)
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, head(14)+`{"prompt":"a"}`); err != nil {
		t.Fatal(err)
	}
	<-s.Heard // the Submit
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	<-s.Heard // the Cancel
	if _, cancels := s.Seen(); len(cancels) != 1 {
		t.Errorf("cancelled %v", cancels)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestDrain holds what clients see of a drain: probes and new requests are told at once, an open request is
// answered, or told so when it takes too long.
func TestDrain(t *testing.T) {
	for _, c := range []struct {
		name    string
		timeout time.Duration
		status  int
		fails   bool
	}{{"finishes", 20 * time.Second, 200, false}, {"gives up", 1200 * time.Millisecond, 503, true}} {
		t.Run(c.name, func(t *testing.T) {
			f, s := newFrontend(t, Config{HTTP: httpserve.Config{DrainTimeout: c.timeout, DrainGrace: time.Second}}, nil)
			address, stop := serveProxy(t, f)
			answer := make(chan string, 1)
			go func() {
				response, body := exchangeRaw(t, address, head(14)+`{"prompt":"a"}`, false)
				answer <- fmt.Sprint(response.StatusCode, " ", body)
			}()
			<-s.Heard
			stopped := make(chan error, 1)
			go func() { stopped <- stop() }()
			for !f.server.Draining() {
				time.Sleep(time.Millisecond)
			}
			if w := do(f, http.MethodGet, "/ready", ""); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "shutting down") {
				t.Errorf("ready while draining: %d %s", w.Code, w.Body)
			}
			for _, path := range []string{"/health", "/metrics"} {
				if w := do(f, http.MethodGet, path, ""); w.Code != http.StatusOK {
					t.Errorf("%s while draining: %d", path, w.Code)
				}
			}
			response, body := exchangeRaw(t, address, head(14)+`{"prompt":"a"}`, false)
			if response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "shutting_down") || !response.Close || response.Header.Get("Retry-After") != "1" {
				t.Errorf("a new request: %d %v %s", response.StatusCode, response.Header, body)
			}
			if !c.fails {
				submits, _ := s.Seen()
				f.pool.Deliver(token(submits[0].ID, 0, 'Y', engine.FinishLength))
			}
			if got := <-answer; !strings.HasPrefix(got, fmt.Sprint(c.status)) || c.fails != strings.Contains(got, "shutting_down") {
				t.Errorf("the open request got %s", got)
			}
			if err := <-stopped; (err != nil) != c.fails {
				t.Errorf("Serve returned %v", err)
			}
		})
	}
}

// TestStreamAsItComes holds that each token is out before the next is there.
func TestStreamAsItComes(t *testing.T) {
	f, s := newFrontend(t, Config{}, nil)
	address, stop := serveProxy(t, f)
	go func() {
		<-s.Heard
		submits, _ := s.Seen()
		f.pool.Deliver(token(submits[0].ID, 0, 'a', engine.FinishNone))
	}()
	response, err := http.Post("http://"+address+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"a","max_tokens":3,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	submits, _ := s.Seen()
	lines := bufio.NewScanner(response.Body)
	var events []string
	for lines.Scan() {
		if lines.Text() == "" {
			continue
		}
		events = append(events, lines.Text())
		switch len(events) {
		case 1:
			f.pool.Deliver(token(submits[0].ID, 1, 'b', engine.FinishNone))
		case 2:
			f.pool.Deliver(&wire.Result{Job: submits[0].ID, Err: engine.Errorf(engine.CodeExecutorLost, "died twice")})
		}
	}
	response.Body.Close()
	if len(events) != 4 || !strings.Contains(events[0], `"text":"a"`) || !strings.Contains(events[1], `"text":"b"`) ||
		!strings.Contains(events[2], `"error":{"message":"died twice"`) || events[3] != "data: [DONE]" {
		t.Errorf("events %q", events)
	}
	http.DefaultClient.CloseIdleConnections()
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestHead(t *testing.T) {
	f, _ := newFrontend(t, Config{}, nil)
	if w := do(f, http.MethodHead, "/health", ""); w.Code != http.StatusOK {
		t.Errorf("HEAD /health: %d", w.Code)
	}
	if w := do(f, http.MethodDelete, "/v1/models", ""); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET" {
		t.Errorf("DELETE /v1/models: %d, %v", w.Code, w.Header())
	}
}

func TestKeys(t *testing.T) {
	f, _ := newFrontend(t, Config{Keys: ring(t, "one", "two")}, say("Y", engine.FinishLength))
	for _, c := range []struct {
		path, key string
		status    int
	}{
		{"/v1/models", "", 401}, {"/v1/models", "Bearer three", 401}, {"/v1/models", "Basic one", 401}, {"/v1/models", "Bearer ", 401},
		{"/v1/models", "Bearer one", 200}, {"/v1/models", "bearer two", 200},
		{"/metrics", "", 401}, {"/load", "", 401}, {"/nothing", "", 401}, {"/ping", "", 401}, {"/ping", "Bearer one", 200}, {"/tokenizer_info", "", 401}, {"/health/", "", 401},
		{"/health", "", 200}, {"/ready", "", 200}, {"/version", "", 200},
	} {
		w := do(f, http.MethodGet, c.path, "", "Authorization", c.key)
		if w.Code != c.status || (w.Header().Get("Www-Authenticate") != "") != (c.status == 401) {
			t.Errorf("%s with %q: status %d, %v", c.path, c.key, w.Code, w.Header())
		}
	}
}

func ring(t *testing.T, entries ...string) *apikey.Ring {
	t.Helper()
	keys, err := apikey.NewRing(entries, "", apikey.IsolateKeys)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// TestKeysDivideTheCache: what goes to the scheduler is salted by key, within which cache_salt counts.
func TestKeysDivideTheCache(t *testing.T) {
	salts, asked := map[string]string{}, ""
	f, _ := newFrontend(t, Config{Keys: ring(t, "one", "two", "three team", "four team")}, func(m *wire.Submit) []*wire.Result {
		salts[asked] = m.Salt
		return say("Y", engine.FinishLength)(m)
	})
	for _, key := range []string{"one", "two", "three", "four"} {
		for _, salt := range []string{"", "x"} {
			asked = key + salt
			body := fmt.Sprintf(`{"prompt":"Hello","max_tokens":1,"cache_salt":%q}`, salt)
			if w := do(f, http.MethodPost, "/v1/completions", body, "Authorization", "Bearer "+key); w.Code != 200 {
				t.Fatalf("%s: %d %s", key, w.Code, w.Body)
			}
		}
	}
	if salts["three"] != salts["four"] || salts["threex"] != salts["fourx"] {
		t.Errorf("keys of a group have the salts %v", salts)
	}
	delete(salts, "four")
	delete(salts, "fourx")
	seen := map[string]bool{"": true}
	for who, salt := range salts {
		if seen[salt] {
			t.Errorf("%s has a salt that another has: %v", who, salts)
		}
		seen[salt] = true
	}
}

// TestPages holds that a browser's preflight needs no key, that its request does, and that the page may read
// the refusal.
func TestPages(t *testing.T) {
	const page = "https://a.example"
	f, _ := newFrontend(t, Config{Keys: ring(t, "one"), CORS: httpserve.CORS{Origins: []string{page}, Methods: []string{"*"}, Headers: []string{"*"}}}, say("Y", engine.FinishLength))
	preflight := do(f, http.MethodOptions, "/v1/completions", "", "Origin", page, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization")
	if preflight.Code != http.StatusOK || preflight.Header().Get("Access-Control-Allow-Headers") != "authorization" {
		t.Errorf("preflight: status %d, %v", preflight.Code, preflight.Header())
	}
	for key, status := range map[string]int{"Bearer one": 200, "": 401} {
		w := do(f, http.MethodPost, "/v1/completions", `{"prompt":"a"}`, "Origin", page, "Authorization", key)
		if w.Code != status || w.Header().Get("Access-Control-Allow-Origin") != page {
			t.Errorf("with %q: status %d, %v", key, w.Code, w.Header())
		}
	}
	w := do(f, http.MethodOptions, "/v1/completions", "", "Origin", "https://b.example")
	if w.Code != http.StatusUnauthorized || w.Header().Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("another page: status %d, %v", w.Code, w.Header())
	}
}

// TestPanic holds that a defect costs one request, and is logged with its stack.
func TestPanic(t *testing.T) {
	f, s := newFrontend(t, Config{}, func(*wire.Submit) []*wire.Result { panic("boom") })
	core, logs := observer.New(zapcore.InfoLevel)
	f.log = zap.New(core)
	w := do(f, http.MethodPost, "/v1/completions", `{"prompt":"a"}`, "X-Request-Id", "r7")
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "request id r7") || strings.Contains(w.Body.String(), "boom") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	if entries := logs.FilterMessage("panic in a handler").All(); len(entries) != 1 || !strings.Contains(entries[0].ContextMap()["stack"].(string), "jobs.go") {
		t.Errorf("logged %v", entries)
	}
	s.Answer = say("Y", engine.FinishLength)
	if w := do(f, http.MethodPost, "/v1/completions", `{"prompt":"a","max_tokens":1}`); w.Code != http.StatusOK {
		t.Errorf("after a panic: status %d", w.Code)
	}
}

func TestAccessLog(t *testing.T) {
	f, _ := newFrontend(t, Config{AccessLog: true}, say("answer", engine.FinishLength))
	core, logs := observer.New(zapcore.InfoLevel)
	f.log = zap.New(core)
	do(f, http.MethodPost, "/v1/completions", `{"prompt":"secret","max_tokens":6}`, "X-Request-Id", "r1")
	do(f, http.MethodPost, "/v1/completions", `{"prompt":"secret","model":"none"}`)
	entries := logs.All()
	if len(entries) != 2 {
		t.Fatalf("logged %d lines", len(entries))
	}
	first := entries[0].ContextMap()
	for key, want := range map[string]any{"request_id": "r1", "status": int64(200), "n_input": int64(7), "n_output": int64(6), "n_cached": int64(3), "model": "demo"} {
		if first[key] != want {
			t.Errorf("%s is %v, want %v", key, first[key], want)
		}
	}
	if second := entries[1].ContextMap(); second["error"] != "model_not_found" || second["status"] != int64(404) {
		t.Errorf("second line %v", second)
	}
	if text := fmt.Sprint(entries); strings.Contains(text, "secret") || strings.Contains(text, "answer") {
		t.Errorf("text in the log: %s", text)
	}
}

// TestProbesAreNotLogged holds that what asks many times a minute does not fill the log, unless it is of
// the finest level.
func TestProbesAreNotLogged(t *testing.T) {
	for level, want := range map[zapcore.Level]int{zapcore.InfoLevel: 1, zapcore.DebugLevel: 3} {
		f, _ := newFrontend(t, Config{AccessLog: true}, nil)
		core, logs := observer.New(level)
		f.log = zap.New(core)
		for _, path := range []string{"/ready", "/health", "/version"} {
			do(f, http.MethodGet, path, "")
		}
		if n := logs.Len(); n != want {
			t.Errorf("%v: %d lines, want %d", level, n, want)
		}
	}
}

// TestCancelledIsLogged holds that the line of a request that its client gave up says what was generated.
func TestCancelledIsLogged(t *testing.T) {
	for _, body := range []string{`{"prompt":"abc","max_tokens":9}`, `{"prompt":"abc","max_tokens":9,"stream":true}`} {
		synctest.Test(t, func(t *testing.T) {
			f, s := newFrontend(t, Config{AccessLog: true}, nil)
			core, logs := observer.New(zap.InfoLevel)
			f.log = zap.New(core)
			ctx, leave := context.WithCancel(t.Context())
			done := start(f, newPost(body).WithContext(ctx))
			synctest.Wait()
			submits, _ := s.Seen()
			f.pool.Deliver(&wire.Result{Job: submits[0].ID, Output: &engine.TokenOutput{Answer: &engine.Answer{Token: 'x'}, Cached: 2}})
			f.pool.Deliver(token(submits[0].ID, 1, 'y', engine.FinishNone))
			synctest.Wait()
			leave()
			<-done
			line := logs.All()[0].ContextMap()
			for key, want := range map[string]any{"error": "client_closed_request", "n_input": int64(4), "n_cached": int64(2), "n_output": int64(2)} {
				if line[key] != want {
					t.Errorf("%s: %s is %v, want %v", body, key, line[key], want)
				}
			}
		})
	}
}

func TestRequestID(t *testing.T) {
	f, _ := newFrontend(t, Config{}, say("Y", engine.FinishLength))
	w := do(f, http.MethodPost, "/v1/completions", `{"prompt":"a","request_id":"mine"}`)
	if w.Header().Get("X-Request-Id") != "mine" || !strings.Contains(w.Body.String(), `"id":"cmpl-mine"`) {
		t.Errorf("headers %v: %s", w.Header(), w.Body)
	}
	if w.Header().Get("Openai-Processing-Ms") == "" {
		t.Error("no openai-processing-ms")
	}
}
