package httpserve

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// lingerTimeout bounds how long the rest of a body that nobody wanted is read, so that the client gets
// to see the answer: a connection closed on unread data is reset.
const lingerTimeout = time.Second

// ServeHTTP bounds one request and passes it to the handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, _ := r.Context().Value(connKey{}).(*conn) // nil in tests without a connection
	a := &answer{ResponseWriter: w, s: s, conn: conn, control: http.NewResponseController(w)}
	if conn != nil {
		defer a.endWriter()
		if a.stream = r.ProtoMajor == 2; a.stream {
			if beyond := s.conns.openStream(a); beyond != "" {
				s.conns.refuseStream(a, beyond)
				return
			}
			defer s.conns.closeStream(a)
		}
		conn.expectAnswer()
		conn.leaving.Store(false)
	}
	ctx, end := s.watchClient(r, conn)
	r = r.WithContext(ctx)
	if r.Body == nil || r.Body == http.NoBody {
		a.requestIsWhole()
	} else {
		_ = a.SetReadDeadline(time.Now().Add(s.cfg.BodyTimeout))
		a.body = &body{ReadCloser: r.Body, whole: a.requestIsWhole}
		r.Body = a.body
	}
	s.inFlight.Add(1)
	defer func() {
		s.inFlight.Add(-1)
		end()
		a.discardUnread(r.Header.Get("Expect") != "")
	}()
	s.handler.ServeHTTP(a, r)
	if a.stream && a.written > 0 {
		_ = a.control.Flush() // while it has a deadline that a drain can bring forward
	}
}

// watchClient returns a context of r that ends when its client is gone, which the end of the client's sending side
// alone does not say, or when a drain cuts it off. The caller calls end when the handler returns.
func (s *Server) watchClient(r *http.Request, c *conn) (ctx context.Context, end func()) {
	ended := r.Context() // by net/http, when it reads an error or the end of the connection
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ended))
	stop := context.AfterFunc(ended, func() {
		switch {
		case errors.Is(context.Cause(ended), ErrDraining):
			cancel(ErrDraining)
		case c == nil || r.ProtoMajor == 2 || c.leaving.Load() || !c.halfClosed(): // HTTP/2 needs both sides
			cancel(ErrClientGone)
		default:
			if cause := s.waitHalfClosed(c, r.ProtoAtLeast(1, 1), ctx.Done()); cause != nil {
				cancel(cause)
			}
		}
	})
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// EndWithSendingSide has a client of r be gone when it closes its sending side: of an answer that holds something until then.
func EndWithSendingSide(r *http.Request) {
	if c, _ := r.Context().Value(connKey{}).(*conn); c != nil {
		c.leaving.Store(true)
	}
}

// interimAfter is how long an answer to a client that closed its sending side is awaited before the client is
// asked whether it is there. Simple clients do close it, and do not expect more than the answer.
const interimAfter = 500 * time.Millisecond

// waitHalfClosed waits, until done, for a client that closed its sending side to turn out to be gone. A
// client of HTTP/1.1 is sent an interim answer, which it should pass over; a host whose socket is closed
// answers that with a reset.
func (s *Server) waitHalfClosed(c *conn, interim bool, done <-chan struct{}) error {
	since := time.Now()
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		select {
		case <-time.After(wait):
		case <-done:
			return nil
		case <-s.cut.Done():
			return ErrDraining
		}
		if interim && time.Since(since) > interimAfter {
			c.sendInterim()
			interim = false
		}
		if c.isReset() || c.leaving.Load() {
			return ErrClientGone
		}
	}
}

// body notes when it was read to its end.
type body struct {
	io.ReadCloser
	whole       func()
	read, atEnd bool
}

func (b *body) Read(p []byte) (int, error) {
	b.read = true
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF && !b.atEnd {
		b.atEnd = true
		b.whole()
	}
	return n, err
}

// answer is the ResponseWriter of a request. It gives every piece that is written a deadline, and an answer as
// a whole a least rate at which it must be taken in.
type answer struct {
	http.ResponseWriter
	s       *Server
	conn    *conn // may be nil
	stream  bool  // of HTTP/2, with deadlines of its own
	control *http.ResponseController
	body    *body // nil: the request has none
	begun   bool  // the header is written
	written int64
	blocked time.Duration // time spent in writing
	waits   wait          // guarded by the mu of the connections

	mu      sync.Mutex
	ended   bool      // guarded by mu: the handler has returned
	readBy  time.Time // guarded by mu: a stream's deadline set last, zero for none
	writeBy time.Time // guarded by mu: likewise
}

// pieceBytes is how much is written under one deadline, and leastRate how many bytes a second a client
// must take in beyond the first WriteTimeout.
const (
	pieceBytes = 64 << 10
	leastRate  = 64 << 10
)

// WriteHeader closes the connection after an answer to a request that was not read to its end: what
// follows on it is no request.
func (a *answer) WriteHeader(status int) {
	if status >= http.StatusOK && !a.begun {
		a.begun = true
		if a.hasUnread() && !a.stream {
			a.Header().Set("Connection", "close")
		}
		if a.conn != nil {
			a.conn.beginAnswer()
		}
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write writes b piece by piece.
func (a *answer) Write(b []byte) (int, error) {
	if !a.begun {
		a.WriteHeader(http.StatusOK)
	}
	if a.conn != nil && len(b) >= leastWaiting {
		a.s.conns.beginWait(a, len(b), time.Now())
		defer a.s.conns.endWait(a)
	}
	total := 0
	for {
		piece := b[:min(len(b), pieceBytes)]
		start := time.Now()
		_ = a.SetWriteDeadline(start.Add(a.writePatience()))
		n, err := a.ResponseWriter.Write(piece)
		a.blocked += time.Since(start)
		a.written += int64(n)
		total += n
		if b = b[n:]; err != nil || len(b) == 0 {
			return total, err
		}
		if a.conn != nil && !a.s.conns.advanceWait(a, time.Now()) {
			return total, os.ErrDeadlineExceeded
		}
	}
}

// writePatience is how long the next piece may take.
func (a *answer) writePatience() time.Duration {
	whole := a.s.cfg.WriteTimeout
	owed := whole + time.Duration(float64(a.written)/leastRate*float64(time.Second))
	return min(whole, owed-a.blocked)
}

// Unwrap lets http.ResponseController reach the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// SetReadDeadline is for http.ResponseController. Writers of tests have no deadlines; a connection's are hurried there.
func (a *answer) SetReadDeadline(t time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.readBy = t
	if a.stream {
		t = a.conn.owner.limitDeadline(t, &a.conn.owner.readLimit)
	}
	return a.control.SetReadDeadline(t)
}

// SetWriteDeadline likewise.
func (a *answer) SetWriteDeadline(t time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writeBy = t
	if a.stream {
		t = a.conn.owner.limitDeadline(t, &a.conn.owner.writeLimit)
	}
	return a.control.SetWriteDeadline(t)
}

// limitDeadlines applies the limits of a drain to a stream's deadlines that were set before it.
func (a *answer) limitDeadlines() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return
	}
	if !a.readBy.IsZero() {
		_ = a.control.SetReadDeadline(a.conn.owner.limitDeadline(a.readBy, &a.conn.owner.readLimit))
	}
	if !a.writeBy.IsZero() {
		_ = a.control.SetWriteDeadline(a.conn.owner.limitDeadline(a.writeBy, &a.conn.owner.writeLimit))
	}
}

// cutOff ends the writing that is under way.
func (a *answer) cutOff() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ended {
		_ = a.control.SetWriteDeadline(time.Unix(1, 0))
	}
}

// endWriter says that net/http's writer is not to be used any more.
func (a *answer) endWriter() {
	a.mu.Lock()
	a.ended = true
	a.mu.Unlock()
}

// requestIsWhole takes the deadline from what is read next, which is the sign that the client left or its
// next request.
func (a *answer) requestIsWhole() { _ = a.SetReadDeadline(time.Time{}) }

func (a *answer) hasUnread() bool { return a.body != nil && !a.body.atEnd }

// discardUnread reads what is left of the request, for a short time. A client that asked whether to send
// its body, and was not told to, does not.
func (a *answer) discardUnread(asked bool) {
	if !a.hasUnread() {
		return
	}
	_ = a.SetReadDeadline(time.Now().Add(lingerTimeout))
	if asked && !a.body.read {
		return
	}
	if a.begun && a.control.Flush() == nil {
		_, _ = io.Copy(io.Discard, a.body)
	}
	if a.hasUnread() {
		_ = a.SetReadDeadline(time.Unix(1, 0)) // net/http is not to read more of it
	}
}
