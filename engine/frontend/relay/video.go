package relay

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/api/openapi"
	"github.com/prefillonly/prefillonly/engine/frontend/route"
)

// Video hands requests to the process that keeps video streams, at its socket, both ways as they come. Answers without an end have one
// when onDrain calls what it is given.
func Video(socket string, onDrain func(func()) (stop func() bool), log *zap.Logger) Relay {
	video := &process{name: "video", socket: socket, keeps: "video streams"}
	proxy := video.proxy(log)
	proxy.FlushInterval = -1
	proxy.ModifyResponse = func(r *http.Response) error {
		if r.ContentLength < 0 {
			r.Body = untilDrain(r.Body, onDrain)
		}
		return nil
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/camera") {
			_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // a camera's session has no end; who hosts it ends one that says nothing
		}
		serve(proxy, w, r, 0)
	})
	return Relay{handler, []string{"/v1/video/*"}, videoRoutes(), video}
}

// videoRoutes are what is told of its paths.
func videoRoutes() []route.Route {
	refused := []int{400, 404, 408, 409, 413, 415, 429, 500, 503}
	one, streams := "/v1/video/streams/{name}", "/v1/video/streams"
	events := map[string]openapi.Schema{"text/event-stream": {"type": "string", "description": "Events whose data are results of frames."}, "application/x-ndjson": {"type": "string", "description": "The same, a line each."}}
	declare := route.Tell("Declares a stream", refused, route.Object(), openapi.Schema{"type": "object", "required": []string{"name"}}).At(streams)
	declare.Status = http.StatusCreated
	return []route.Route{
		told(http.MethodPost, declare),
		told(http.MethodGet, route.Tell("How streams are", refused, route.Object()).At(streams)),
		told(http.MethodGet, route.Tell("How a stream is", refused, route.Object()).At(one)),
		told(http.MethodDelete, route.Tell("Ends a stream, and forgets it", refused, route.Object()).At(one)),
		told(http.MethodGet, route.Tell("The results of a stream as they come", refused, events).At(one+"/results").With("after")),
		told(http.MethodGet, route.Tell("The frame that was seen last", refused, route.Bytes("image/jpeg")).At(one+"/frame.jpg")),
		told(http.MethodGet, route.Tell("How a camera encoded its last segments", refused, route.Object()).At(one+"/segments").With("after")),
		told(http.MethodPost, route.Tell("A camera program's session: its messages in the body, the server's in the answer, both at once", refused, route.Bytes("application/octet-stream")).At(one+"/camera")),
	}
}

// endless is an answer that ends when the server drains: that of a camera's session, or of a stream's results.
type endless struct {
	io.ReadCloser
	drained atomic.Bool
	stop    func() bool
}

func untilDrain(body io.ReadCloser, onDrain func(func()) (stop func() bool)) *endless {
	e := &endless{ReadCloser: body}
	e.stop = onDrain(func() {
		e.drained.Store(true)
		_ = body.Close() // whoever reads it is told here
	})
	return e
}

func (e *endless) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	if err != nil && e.drained.Load() {
		err = io.EOF
	}
	return n, err
}

func (e *endless) Close() error {
	if !e.stop() {
		return nil // it is closed already
	}
	return e.ReadCloser.Close()
}
