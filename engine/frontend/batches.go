package frontend

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api/openapi"
)

// batchPaths are those of the process that keeps files and batches.
var batchPaths = []string{"/v1/files", "/v1/files/*", "/v1/batches", "/v1/batches/*"}

// ownerHeader tells that process on whose behalf a request is made.
const ownerHeader = "X-Prefillonly-Owner"

// batchTimeout bounds the dialling of that process, and uploadPatience the time between two pieces of an upload.
const (
	batchTimeout   = 2 * time.Second
	uploadPatience = 60 * time.Second
)

// proxyBatches hands requests to the process that keeps files and batches. Uploads may take as long as they like while they go on.
func (f *Frontend) proxyBatches(socket string) http.Handler {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: batchTimeout}).DialContext(ctx, "unix", socket)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			x := r.In.Context().Value(exchangeKey{}).(*exchange)
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "batches"
			r.Out.Header.Del("Authorization") // it was looked at here
			r.Out.Header.Set(ownerHeader, x.owner.ID())
		},
		Transport: &http.Transport{DialContext: dial, DisableCompression: true, MaxIdleConnsPerHost: -1},
		ErrorLog:  zap.NewStdLog(f.log.Named("batches")),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			x := r.Context().Value(exchangeKey{}).(*exchange)
			x.ResponseWriter = w
			if r.Context().Err() != nil {
				f.refuse(x, ended(r.Context()))
				return
			}
			f.refuse(x, refuse(engine.CodeUnavailable, "the process that keeps files and batches does not answer, and is being started again: %v", err))
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		_ = control.EnableFullDuplex() // writers of tests cannot
		if r.Body != nil && r.Body != http.NoBody {
			r.Body = &patient{ReadCloser: r.Body, control: control}
		}
		proxy.ServeHTTP(w, r)
	})
}

// patient is a body whose every piece has the time that others have as a whole.
type patient struct {
	io.ReadCloser
	control *http.ResponseController
	ended   bool // the answer may take as long as it likes
}

func (p *patient) Read(b []byte) (int, error) {
	if !p.ended {
		_ = p.control.SetReadDeadline(time.Now().Add(uploadPatience)) // writers of tests cannot
	}
	n, err := p.ReadCloser.Read(b)
	p.ended = err != nil
	return n, err
}

// batchRoutes are what is told of these paths.
func batchRoutes() []route {
	refused := []int{400, 404, 408, 413, 500, 503}
	object := inJSON(openapi.Schema{"type": "object"})
	told := func(method string, o operation) route { return route{method: method, told: []operation{o}} }
	form := openapi.Schema{"type": "object", "required": []string{"input_file_id", "endpoint", "completion_window"}}
	return []route{
		told(http.MethodPost, tell("Keeps a file, which comes as multipart/form-data", refused, object).at("/v1/files")),
		told(http.MethodGet, tell("The files", refused, object).at("/v1/files").query("after", "limit", "order", "purpose")),
		told(http.MethodGet, tell("How a file is", refused, object).at("/v1/files/{file_id}")),
		told(http.MethodDelete, tell("Deletes a file", refused, object).at("/v1/files/{file_id}")),
		told(http.MethodGet, tell("What is in a file", refused, map[string]openapi.Schema{"application/octet-stream": {"type": "string", "format": "binary"}}).at("/v1/files/{file_id}/content")),
		told(http.MethodPost, tell("Makes a batch of a file", refused, object, form).at("/v1/batches")),
		told(http.MethodGet, tell("The batches", refused, object).at("/v1/batches").query("after", "limit")),
		told(http.MethodGet, tell("How a batch is", refused, object).at("/v1/batches/{batch_id}")),
		told(http.MethodPost, tell("Ends a batch", refused, object).at("/v1/batches/{batch_id}/cancel")),
	}
}
