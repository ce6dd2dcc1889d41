package frontend

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
)

// videoTimeout bounds the dialling of the process that keeps video streams.
const videoTimeout = 2 * time.Second

// proxyVideo hands requests to the process that keeps video streams, both ways as they come. Each has a connection of its own there, so that
// one whose camera says more than is taken in holds up no other. No connection is kept for another request; with DisableKeepAlives the other side
// would hang up with a refusal that it gives before a body's end, and the refusal be lost.
func (f *Frontend) proxyVideo(socket string) http.Handler {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: videoTimeout}).DialContext(ctx, "unix", socket)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "video"
			r.Out.Header.Del("Authorization") // it was looked at here
		},
		Transport:     &http.Transport{DialContext: dial, DisableCompression: true, MaxIdleConnsPerHost: -1},
		FlushInterval: -1,
		ErrorLog:      zap.NewStdLog(f.log.Named("video")),
		ModifyResponse: func(r *http.Response) error {
			if r.ContentLength < 0 {
				r.Body = f.untilDrain(r.Body)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			x := r.Context().Value(exchangeKey{}).(*exchange)
			x.ResponseWriter = w
			if r.Context().Err() != nil {
				f.refuse(x, ended(r.Context()))
				return
			}
			f.refuse(x, refuse(engine.CodeUnavailable, "the process that keeps video streams does not answer, and is being started again: %v", err))
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		_ = control.EnableFullDuplex() // writers of tests cannot
		if strings.HasSuffix(r.URL.Path, "/camera") {
			_ = control.SetReadDeadline(time.Time{}) // a camera's session has no end; who hosts it ends one that says nothing
		}
		proxy.ServeHTTP(w, r)
	})
}

// endless is an answer that ends when the server drains: that of a camera's session, or of a stream's results.
type endless struct {
	io.ReadCloser
	drained atomic.Bool
	stop    func() bool
}

func (f *Frontend) untilDrain(body io.ReadCloser) *endless {
	e := &endless{ReadCloser: body}
	e.stop = f.server.OnDrain(func() {
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
