package frontend

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/api/openapi"
)

// newVideoRelay hands requests to the process that keeps video streams, at its socket, both ways as they come. Answers without an end have one
// when onDrain calls what it is given.
func newVideoRelay(socket string, onDrain func(func()) (stop func() bool), log *zap.Logger) relay {
	video := &process{name: "video", socket: socket, keeps: "video streams"}
	proxy := video.newProxy(log)
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
		serveRelayed(proxy, w, r, 0)
	})
	return relay{handler, []string{"/v1/video/*"}, videoRoutes(), video}
}

// videoRoutes are what is told of its paths.
func videoRoutes() []route {
	refused := []int{400, 404, 408, 409, 413, 415, 429, 500, 503}
	one, streams := "/v1/video/streams/{name}", "/v1/video/streams"
	events := map[string]openapi.Schema{"text/event-stream": {"type": "string", "description": "Events whose data are results of frames."}, "application/x-ndjson": {"type": "string", "description": "The same, a line each."}}
	declare := describeOperation("Declares a stream", refused, jsonObject(), openapi.Schema{"type": "object", "required": []string{"name"}}).At(streams)
	declare.Status = http.StatusCreated
	return []route{
		toldRoute(http.MethodPost, declare),
		toldRoute(http.MethodGet, describeOperation("How streams are", refused, jsonObject()).At(streams)),
		toldRoute(http.MethodGet, describeOperation("How a stream is", refused, jsonObject()).At(one)),
		toldRoute(http.MethodDelete, describeOperation("Ends a stream, and forgets it", refused, jsonObject()).At(one)),
		toldRoute(http.MethodGet, describeOperation("The results of a stream as they come", refused, events).At(one+"/results").With("after")),
		toldRoute(http.MethodGet, describeOperation("The frame that was seen last", refused, bytesOf("image/jpeg")).At(one+"/frame.jpg")),
		toldRoute(http.MethodGet, describeOperation("How a camera encoded its last segments", refused, jsonObject()).At(one+"/segments").With("after")),
		toldRoute(http.MethodPost, describeOperation("A camera program's session: its messages in the body, the server's in the answer, both at once", refused, bytesOf("application/octet-stream")).At(one+"/camera")),
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
