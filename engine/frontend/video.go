package frontend

import (
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"time"

	"github.com/prefillonly/prefillonly/engine"
)

// videoTimeout bounds the dialling of the process that keeps video streams.
const videoTimeout = 2 * time.Second

// proxyVideo hands requests to the process that keeps video streams, both ways as they come. Each has a connection of its own there, so that
// one whose camera says more than is taken in holds up no other.
func (f *Frontend) proxyVideo(socket string) http.Handler {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: videoTimeout}).DialContext(ctx, "unix", socket)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "video"
			r.Out.Header.Del("Authorization") // it was looked at here
		},
		Transport:     &http.Transport{DialContext: dial, DisableCompression: true, DisableKeepAlives: true},
		FlushInterval: -1,
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
		if r.Method == http.MethodPost && r.ContentLength < 0 {
			_ = control.SetReadDeadline(time.Time{}) // a camera's session has no end
		}
		proxy.ServeHTTP(w, r)
	})
}
