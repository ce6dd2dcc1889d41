// Package relay hands requests to processes beside the frontend: that of video streams, and that of files and batches.
package relay

import (
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
	"github.com/prefillonly/prefillonly/engine/frontend/route"
)

// Relay is a handler of several paths, all of which are those of one process.
type Relay struct {
	http.Handler
	Paths []string      // the router's patterns
	Told  []route.Route // what is told of them
}

// told is a route that the Relay's handler serves.
func told(method string, o route.Operation) route.Route {
	return route.Route{Method: method, Told: []route.Operation{o}}
}

// dialTimeout bounds the dialling of a process.
const dialTimeout = 2 * time.Second

// proxyTo hands requests to the process of a name at a socket, which keeps what keeps says. Each has a connection of its own there, so
// that one whose client says more than is taken in holds up no other. No connection is kept for another request; with DisableKeepAlives
// the other side would hang up with a refusal that it gives before a body's end, and the refusal be lost.
func proxyTo(name, socket, keeps string, log *zap.Logger) *httputil.ReverseProxy {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "unix", socket)
	}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", name
			r.Out.Header.Del("Authorization") // it was looked at here
		},
		Transport: &http.Transport{DialContext: dial, DisableCompression: true, MaxIdleConnsPerHost: -1},
		ErrorLog:  zap.NewStdLog(log.Named(name)),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			x := exchange.From(r.Context())
			x.ResponseWriter = w
			if r.Context().Err() != nil {
				x.Refuse(exchange.Ended(r.Context()))
				return
			}
			x.Refuse(exchange.Unavailable("the process that keeps %s does not answer, and is being started again: %v", keeps, err))
		},
	}
}
