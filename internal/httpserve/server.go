// Package httpserve is the shell of an HTTP process: it bounds connections, streams of HTTP/2 and every time that a client
// may keep one busy, tells clients that left from those that only closed their sending side, tells browsers which pages of
// other origins may use the server (CORS), and drains.
package httpserve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// Why a request's context ends before its handler does.
var (
	ErrClientGone = errors.New("the client closed the connection before the answer was ready")
	ErrDraining   = errors.New("the server is shutting down")
)

// Config is how a Server treats its clients. The zero value of a field means its default.
type Config struct {
	MaxConnections int // in all; default 8192
	MaxPerAddress  int // of one IPv4 address or one IPv6 /64; default 2048

	HeaderTimeout time.Duration // to send a request's header; default 10 s
	BodyTimeout   time.Duration // to send its body; default 60 s
	IdleTimeout   time.Duration // between two requests; default 120 s
	WriteTimeout  time.Duration // to take in pieceBytes of an answer; default 60 s

	DrainTimeout time.Duration // to finish open requests at shutdown; default 30 s
	DrainGrace   time.Duration // of that, in which connections are still accepted; default none

	// TurnAway is the answer to a connection beyond a bound. It is called once for each bound.
	TurnAway func(b Bound, limit int) (status int, contentType string, body []byte)
}

// WithDefaults fills in what is zero.
func (c Config) WithDefaults() Config {
	c.MaxConnections = cmp.Or(c.MaxConnections, 8192)
	c.MaxPerAddress = cmp.Or(c.MaxPerAddress, 2048)
	c.HeaderTimeout = cmp.Or(c.HeaderTimeout, 10*time.Second)
	c.BodyTimeout = cmp.Or(c.BodyTimeout, 60*time.Second)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 120*time.Second)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, 60*time.Second)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 30*time.Second)
	if c.TurnAway == nil {
		c.TurnAway = func(b Bound, limit int) (int, string, []byte) {
			return http.StatusServiceUnavailable, "text/plain", fmt.Appendf(nil, "%d connections are open (%s)\n", limit, b)
		}
	}
	return c
}

// How long a client may take once the server drains: to complete a request that is half sent, to take
// in a piece of an answer, and to take in the answers of requests that were cut off.
const (
	hurriedRead  = 2 * time.Second
	hurriedWrite = 5 * time.Second
	lastWords    = 2 * time.Second
)

// maxHeaderBytes bounds a request's header.
const maxHeaderBytes = 32 << 10

// Server serves one handler. Its methods are safe for concurrent use.
type Server struct {
	// set once
	cfg     Config
	handler http.Handler
	log     *zap.Logger
	conns   *connections
	drains  context.Context // ends when a drain begins
	leave   context.CancelFunc
	cut     context.Context // ends, with ErrDraining, when a drain has lasted too long
	cutOff  context.CancelCauseFunc

	inFlight atomic.Int64
}

// New makes a Server of handler. A request's context ends, with a cause, when its client is gone or a drain
// cuts it off; the deadlines of its connection are the Server's business.
func New(cfg Config, handler http.Handler, log *zap.Logger) *Server {
	cfg = cfg.WithDefaults()
	s := &Server{cfg: cfg, handler: handler, log: log, conns: newConnections(cfg)}
	s.drains, s.leave = context.WithCancel(context.Background())
	s.cut, s.cutOff = context.WithCancelCause(context.Background())
	return s
}

// Draining reports whether Serve was told to end: new requests should be refused.
func (s *Server) Draining() bool { return s.drains.Err() != nil }

// OnDrain has a function called in a goroutine of its own when Serve is told to end, unless stop is called before. Answers that have no end of their own
// are to end then.
func (s *Server) OnDrain(f func()) (stop func() bool) { return context.AfterFunc(s.drains, f) }

// InFlight is the number of requests that have a header and no answer.
func (s *Server) InFlight() int { return int(s.inFlight.Load()) }

// Serve answers requests on listener until ctx ends. Then it closes idle connections and goes on accepting for
// DrainGrace, lets open requests finish until DrainTimeout has passed, and ends the contexts of the rest, which
// have a moment to say so. It closes listener. After a drain it returns nil, or an error that counts
// the requests that were cut off.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true) // of cameras, which need both directions at once, through proxies too
	server := &http.Server{
		Protocols:         protocols,
		HTTP2:             s.http2Config(),
		Handler:           s,
		ReadHeaderTimeout: s.cfg.HeaderTimeout,
		WriteTimeout:      s.cfg.WriteTimeout,
		IdleTimeout:       s.cfg.IdleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          zap.NewStdLog(s.log.Named("http")),
		ConnState:         s.conns.trackState,
		BaseContext:       func(net.Listener) context.Context { return s.cut },
		ConnContext:       withConn,
	}
	defer s.conns.waitFarewells()
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(s.conns.limitListener(listener, s.log)) }() // ended by Shutdown or Close below
	select {
	case err := <-failed:
		return fmt.Errorf("serve HTTP: %w", err)
	case <-ctx.Done():
	}
	return s.drainConnections(server)
}

func (s *Server) drainConnections(server *http.Server) error {
	begun := time.Now()
	s.leave()
	s.log.Info("draining", zap.Int("open_requests", s.InFlight()), zap.Duration("timeout", s.cfg.DrainTimeout))
	s.conns.limitAllDeadlines(hurriedRead, hurriedWrite)
	server.SetKeepAlivesEnabled(false)
	time.Sleep(min(s.cfg.DrainGrace, s.cfg.DrainTimeout))
	defer time.AfterFunc(hurriedRead, s.conns.closeIdles).Stop() // of HTTP/2, those that began when Shutdown told the others
	err := shutdownWithin(server, time.Until(begun.Add(s.cfg.DrainTimeout)))
	if err == nil {
		return nil
	}
	cut := s.InFlight()
	s.cutOff(ErrDraining)
	if shutdownWithin(server, lastWords) != nil {
		if err := server.Close(); err != nil {
			s.log.Warn("closing the HTTP server", zap.Error(err))
		}
	}
	if cut == 0 {
		return nil // what was open was no request, or an answer that nobody reads
	}
	return fmt.Errorf("drain: %d requests were still open after %v", cut, s.cfg.DrainTimeout)
}

// shutdownWithin closes the listener and waits for connections to end.
func shutdownWithin(server *http.Server, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return server.Shutdown(ctx)
}
