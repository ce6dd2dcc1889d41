package mq

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// waiter waits for a socket's event descriptor in Go's poller: the goroutine parks, and goes on in the
// thread that polls.
type waiter struct {
	file *os.File
	conn syscall.RawConn
}

// newWaiter takes fd over.
func newWaiter(fd int) (*waiter, error) {
	file := os.NewFile(uintptr(fd), "zmq-events")
	conn, err := file.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &waiter{file, conn}, nil
}

// waitUntil calls done, and again after each event, until it reports true, or returns nil after a nudge. It
// fails after close. One goroutine at a time waits.
func (w *waiter) waitUntil(done func() bool) error {
	err := w.conn.Read(func(uintptr) bool { return done() })
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return w.file.SetReadDeadline(time.Time{})
	}
	return err
}

// interruptWait lets the poller give the wait up.
func (w *waiter) interruptWait() { _ = w.file.SetReadDeadline(time.Unix(1, 0)) }

func (w *waiter) close() { _ = w.file.Close() }

// awaitFound waits until found, which is called with mu held, reports true. It returns ErrClosed after
// close, or the context's error; found is called at least once before that.
func (s *socket) awaitFound(ctx context.Context, found func() bool) error {
	if ctx.Err() == nil {
		defer context.AfterFunc(ctx, s.wakeWaiters)()
	}
	var done, ended, closed bool
	look := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		closed = s.closed
		done = !closed && found()
		// Asked under mu, since wake, which follows the context's end, does nothing before waiting is set.
		ended = ctx.Err() != nil
		s.waiting = !done && !ended && !closed
		return !s.waiting
	}
	for {
		err := s.waiter.waitUntil(look)
		switch {
		case done:
			return nil
		case closed || s.isClosed():
			return ErrClosed
		case err != nil:
			return err
		case ended:
			return ctx.Err()
		}
	}
}

func (s *socket) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// wakeWaiters lets a goroutine inside await look again.
func (s *socket) wakeWaiters() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wakeLocked()
}

// wakeLocked is wake for callers that hold mu.
func (s *socket) wakeLocked() {
	if s.waiting {
		s.waiting = false
		s.waiter.interruptWait()
	}
}

// takeMissed follows every use of the socket outside await, under mu: what came meanwhile, whose event the
// use may have swallowed, is taken in for the goroutine that waits. One that does not wait looks itself
// before it does. After a failure the state of the connection is looked at in any case.
func (s *socket) takeMissed(q interface{ empty() bool }, look func() bool, failure error) {
	if !s.waiting && failure == nil {
		return
	}
	for look() {
	}
	if !q.empty() {
		s.wakeLocked()
	}
}
