package httpserve

import (
	"net/http"
	"time"
)

// What one connection of HTTP/2 may have, all its streams together.
const (
	maxStreams     = 100       // open at a time
	maxUnreadBytes = 256 << 10 // of bodies that no handler has read yet
	maxFrameBytes  = 16 << 10
)

// http2Config bounds connections of HTTP/2. The deadline of a write is each piece's own.
func (s *Server) http2Config() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams: maxStreams, MaxReadFrameSize: maxFrameBytes,
		MaxReceiveBufferPerConnection: maxUnreadBytes, MaxReceiveBufferPerStream: maxUnreadBytes,
		WriteByteTimeout: s.cfg.WriteTimeout,
	}
}

// openStream counts an answer among its connection's. Each beyond a connection's first counts as a connection; if there is no room
// for it, openStream returns the bound.
func (c *connections) openStream(a *answer) Bound {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(a.conn.streams) > 0 {
		if beyond := c.makeRoom(a.conn.from); beyond != "" {
			return beyond
		}
		c.addCount(a.conn.from, 1)
	}
	if a.conn.streams == nil {
		a.conn.streams = map[*answer]struct{}{}
	}
	a.conn.streams[a] = struct{}{}
	return ""
}

func (c *connections) closeStream(a *answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if delete(a.conn.streams, a); len(a.conn.streams) > 0 {
		c.addCount(a.conn.from, -1)
	}
}

// refuseStream tells a stream beyond a bound so, if few others are being told, and resets it otherwise.
func (c *connections) refuseStream(a *answer, beyond Bound) {
	c.noteRefused(beyond)
	select {
	case c.farewells <- struct{}{}:
		defer func() { <-c.farewells }()
	default:
		panic(http.ErrAbortHandler)
	}
	said := c.turnAway[beyond]
	a.Header().Set("Content-Type", said.contentType)
	a.Header().Set("Retry-After", "1")
	_ = a.SetWriteDeadline(time.Now().Add(lingerTimeout))
	a.ResponseWriter.WriteHeader(said.status)
	if _, err := a.ResponseWriter.Write(said.body); err == nil {
		_ = a.control.Flush()
	}
}
