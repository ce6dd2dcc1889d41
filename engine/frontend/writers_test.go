package frontend

import (
	"bufio"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// plainWriter is middleware's: it knows nothing of flushing, but what it wraps.
type plainWriter struct {
	w       http.ResponseWriter
	written *int
}

func (p plainWriter) Header() http.Header  { return p.w.Header() }
func (p plainWriter) WriteHeader(code int) { p.w.WriteHeader(code) }
func (p plainWriter) Write(b []byte) (int, error) {
	*p.written += len(b)
	return p.w.Write(b)
}
func (p plainWriter) Unwrap() http.ResponseWriter { return p.w }

// zipWriter compresses what goes through it, and keeps the header back until then.
type zipWriter struct {
	w      http.ResponseWriter
	status int
	zip    *gzip.Writer
}

func (z *zipWriter) Header() http.Header  { return z.w.Header() }
func (z *zipWriter) WriteHeader(code int) { z.status = code }
func (z *zipWriter) Write(b []byte) (int, error) {
	if z.zip == nil {
		z.Header().Del("Content-Length")
		z.Header().Set("Content-Encoding", "gzip")
		z.w.WriteHeader(max(z.status, http.StatusOK))
		z.zip = gzip.NewWriter(z.w)
	}
	return z.zip.Write(b)
}

// FlushError is what an http.ResponseController finds.
func (z *zipWriter) FlushError() error {
	if z.zip != nil {
		_ = z.zip.Flush()
	}
	return http.NewResponseController(z.w).Flush()
}

// TestWrappedWriters holds that each token of a stream is out before the next is there, whatever middleware has made
// of the writer: outside of the frontend's own, inside of it, or both.
func TestWrappedWriters(t *testing.T) {
	written := 0
	plain := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(plainWriter{w, &written}, r) })
	}
	zipped := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			z := &zipWriter{w: w}
			next.ServeHTTP(z, r)
			if z.zip != nil {
				_ = z.zip.Close()
			}
		})
	}
	for name, handler := range map[string]func(f *Frontend) http.Handler{
		"outside":      func(f *Frontend) http.Handler { return plain(f.Handler()) },
		"inside":       func(f *Frontend) http.Handler { return f.wrapHandler(plain(f.newRouter())) },
		"both, zipped": func(f *Frontend) http.Handler { return plain(f.wrapHandler(zipped(plain(f.newRouter())))) },
	} {
		t.Run(name, func(t *testing.T) {
			written = 0
			f, s := newFrontend(t, Config{}, nil)
			server := httptest.NewServer(handler(f))
			defer server.Close()
			go func() {
				<-s.Heard
				submits, _ := s.Seen()
				f.pool.Deliver(token(submits[0].ID, 0, 'a', engine.FinishNone))
			}()
			response, err := http.Post(server.URL+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"a","max_tokens":3,"stream":true}`))
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			submits, _ := s.Seen()
			lines := bufio.NewScanner(response.Body)
			var events []string
			for lines.Scan() {
				if lines.Text() == "" {
					continue
				}
				events = append(events, lines.Text())
				if n := len(events); n < 3 {
					f.pool.Deliver(token(submits[0].ID, n, 'a'+uint32(n), []engine.Finish{1: engine.FinishNone, 2: engine.FinishLength}[n]))
				}
			}
			if len(events) != 4 || !strings.Contains(events[0], `"text":"a"`) || !strings.Contains(events[2], `"text":"c"`) || events[3] != "data: [DONE]" {
				t.Errorf("events %q", events)
			}
			if written == 0 {
				t.Error("nothing went through the wrapper")
			}
		})
	}
	f, _ := newFrontend(t, Config{}, say("Y", engine.FinishLength))
	w := httptest.NewRecorder()
	f.wrapHandler(zipped(f.newRouter())).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/completions", strings.NewReader(`{"prompt":"a","model":"none"}`)))
	unzip, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(unzip); err != nil || w.Code != http.StatusNotFound || !strings.Contains(string(body), "does not exist") || w.Header().Get("Openai-Processing-Ms") == "" {
		t.Errorf("status %d, %v: %s, %v", w.Code, w.Header(), body, err)
	}
	if text := do(f, http.MethodGet, "/metrics", "").Body.String(); !strings.Contains(text, `prefillonly:refused_requests_total{engine="0",model_name="demo",status="404"} 1`) {
		t.Error("the status behind middleware is not counted")
	}
}

// TestPanicBehindMiddleware holds that a defect is answered although the handler's writer is a wrapped one.
func TestPanicBehindMiddleware(t *testing.T) {
	f, _ := newFrontend(t, Config{}, func(*wire.Submit) []*wire.Result { panic("boom") })
	written := 0
	h := f.wrapHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.newRouter().ServeHTTP(plainWriter{w, &written}, r) }))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, newPost(`{"prompt":"a"}`))
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "defect of the server") || written != 0 {
		t.Errorf("status %d: %s; %d bytes through the middleware that was left", w.Code, w.Body, written)
	}
}
