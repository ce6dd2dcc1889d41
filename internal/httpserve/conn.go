package httpserve

import (
	"container/list"
	"context"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// conn is a client's connection. It is counted until it is closed.
type conn struct {
	net.Conn
	owner *connections
	from  netip.Prefix

	sentAll atomic.Bool            // the client closed its sending side
	leaving atomic.Bool            // the end of the sending side is that of the client
	greeted int                    // bytes of HTTP/2's preface that came; -1 if something else did; owned by Read
	frames  atomic.Pointer[frames] // nil: not of HTTP/2

	mu      sync.Mutex
	readBy  time.Time // guarded by mu: the deadline set last, zero for none
	writeBy time.Time // guarded by mu: likewise
	silent  bool      // guarded by mu: a request waits for the first byte of its answer

	idle    *list.Element        // guarded by owner.mu: among the idle ones
	closed  bool                 // guarded by owner.mu
	streams map[*answer]struct{} // guarded by owner.mu: open ones of HTTP/2
}

type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// Read notes the end of what the client sends, and ends a connection of HTTP/2 whose frames ask for too little.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == io.EOF {
		c.sentAll.Store(true)
	}
	if framed := c.http2Frames(b[:n]); len(framed) > 0 && !c.frames.Load().countReceived(framed, time.Now()) {
		c.owner.cutFrames.Add(1)
		return 0, errFrames
	}
	return n, err
}

// http2Frames is what of b are frames of HTTP/2.
func (c *conn) http2Frames(b []byte) []byte {
	for c.greeted >= 0 && c.greeted < len(preface) && len(b) > 0 {
		if b[0] != preface[c.greeted] {
			c.greeted = -1
			break
		}
		b = b[1:]
		if c.greeted++; c.greeted == len(preface) {
			c.frames.Store(&frames{})
		}
	}
	if c.greeted < len(preface) {
		return nil
	}
	return b
}

// Write notes the frames of answers.
func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if f := c.frames.Load(); f != nil {
		f.countSent(b[:n], time.Now())
	}
	return n, err
}

// Close closes the connection and counts it no more.
func (c *conn) Close() error {
	c.owner.forgetConnection(c)
	return c.Conn.Close()
}

// CloseWrite sends the end of an answer and leaves the other direction open.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// SetReadDeadline implements net.Conn; a drain brings deadlines forward.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readBy = t
	return c.Conn.SetReadDeadline(c.owner.limitDeadline(t, &c.owner.readLimit))
}

// SetWriteDeadline implements net.Conn; a drain brings deadlines forward.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writeBy = t
	return c.Conn.SetWriteDeadline(c.owner.limitDeadline(t, &c.owner.writeLimit))
}

// limitDeadlines applies the limits of a drain to the deadlines that were set before it.
func (c *conn) limitDeadlines() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.Conn.SetReadDeadline(c.owner.limitDeadline(c.readBy, &c.owner.readLimit)) // it may just have been closed
	_ = c.Conn.SetWriteDeadline(c.owner.limitDeadline(c.writeBy, &c.owner.writeLimit))
}

// expectAnswer notes that a request begins, and beginAnswer that the first byte of its answer is next.
func (c *conn) expectAnswer() { c.setSilent(true) }
func (c *conn) beginAnswer()  { c.setSilent(false) }

func (c *conn) setSilent(silent bool) {
	c.mu.Lock()
	c.silent = silent
	c.mu.Unlock()
}

// sendInterim sends an interim answer, unless the answer has begun.
func (c *conn) sendInterim() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.silent {
		_, _ = io.WriteString(c.Conn, "HTTP/1.1 100 Continue\r\n\r\n") // an error is for broken to find
	}
}

// halfClosed says that the client sends no more and may still read.
func (c *conn) halfClosed() bool { return c.sentAll.Load() && !c.isReset() }

// isReset says that the connection was reset.
func (c *conn) isReset() bool {
	socket, ok := c.Conn.(syscall.Conn)
	if !ok {
		return true // not to be told: the end of what is sent counts as the end
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return true
	}
	failed := 0
	err = raw.Control(func(fd uintptr) {
		if failed, err = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_ERROR); err != nil {
			failed = 1
		}
	})
	return err != nil || failed != 0
}
