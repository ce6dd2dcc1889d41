package frontend

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/prefillonly/prefillonly/engine/api/pooling"
	"github.com/prefillonly/prefillonly/engine/apikey"
)

// insider is the key of a context under which the owner of a request stands that came by Ask.
type insider struct{}

// Asked is an answer in memory.
type Asked struct {
	Status     int
	RequestID  string
	Body       []byte
	RetryAfter time.Duration // that a refusal asks for
	NoRetry    bool          // a refusal says that another try would fail too
}

// Ask answers a POST request with a JSON body on an owner's behalf, as over HTTP, in this process. The error is that of ctx.
func (f *Frontend) Ask(ctx context.Context, owner apikey.Owner, path string, body []byte) (*Asked, error) {
	r, err := http.NewRequestWithContext(context.WithValue(ctx, insider{}, owner), http.MethodPost, path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	w := &memoryWriter{header: http.Header{}}
	f.server.ServeHTTP(w, r)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return w.writtenAnswer(), nil
}

// Askable says whether requests to a path score, embed, complete, read pictures or hear sound: what is asked of models and answered in JSON.
func Askable(path string) bool { return askable[path] }

var askable = func() map[string]bool {
	paths := map[string]bool{"/v1/completions": true, "/v1/chat/completions": true, "/v1/decisions": true, "/v1/systemone": true, "/v1/ocr": true, "/v1/audio/transcriptions": true}
	for _, e := range pooling.Endpoints() {
		paths[e.Path] = true
	}
	return paths
}()

// memoryWriter is a ResponseWriter that keeps the answer.
type memoryWriter struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *memoryWriter) Header() http.Header { return w.header }

func (w *memoryWriter) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
}

func (w *memoryWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

// writtenAnswer is what was written.
func (w *memoryWriter) writtenAnswer() *Asked {
	a := &Asked{
		Status: w.status, RequestID: w.header.Get("X-Request-Id"), Body: w.body.Bytes(), NoRetry: w.header.Get("X-Should-Retry") == "false",
	}
	if ms, err := strconv.ParseInt(w.header.Get("Retry-After-Ms"), 10, 64); err == nil {
		a.RetryAfter = time.Duration(ms) * time.Millisecond
	}
	return a
}
