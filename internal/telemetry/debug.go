package telemetry

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"strconv"
	"time"

	"go.uber.org/zap"
)

// noDebug is the server of a process that has none.
type noDebug struct{}

func (noDebug) Close() error { return nil }

// ServeDebug answers pprof on port base+offset of this host alone, until the result is closed. Base 0
// means no server.
func ServeDebug(base, offset int, log *zap.Logger) (io.Closer, error) {
	if base == 0 {
		return noDebug{}, nil
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(base+offset)))
	if err != nil {
		return nil, fmt.Errorf("debug-port: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	log.Info("debugging", zap.String("url", "http://"+listener.Addr().String()+"/debug/pprof/"))
	go func() { _ = server.Serve(listener) }() // ended by Close
	return server, nil
}
