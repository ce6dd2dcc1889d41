package mq

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// waiter waits for a socket's event descriptor.
type waiter interface {
	// wait calls done, and again after each event, until it reports true, or returns nil after a nudge.
	// It fails after close. One goroutine at a time waits.
	wait(done func() bool) error
	nudge()
	// close ends a wait under way; there must be no call after it but of wait.
	close()
}

// pollerWaiter waits in Go's poller: the goroutine parks, and goes on in the thread that polls.
type pollerWaiter struct {
	file *os.File
	conn syscall.RawConn
}

func newPollerWaiter(fd int) (*pollerWaiter, error) {
	file := os.NewFile(uintptr(fd), "zmq-events")
	conn, err := file.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &pollerWaiter{file, conn}, nil
}

func (w *pollerWaiter) wait(done func() bool) error {
	err := w.conn.Read(func(uintptr) bool { return done() })
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return w.file.SetReadDeadline(time.Time{})
	}
	return err
}

// nudge lets the poller give the wait up.
func (w *pollerWaiter) nudge() { _ = w.file.SetReadDeadline(time.Unix(1, 0)) }

func (w *pollerWaiter) close() { _ = w.file.Close() }

// threadWaiter blocks its caller's OS thread. A goroutine locked to a thread is woken from Go's poller
// by way of another thread; this spares that hop.
type threadWaiter struct {
	events, nudges int

	mu     sync.Mutex // held by wait
	closed bool       // guarded by mu
}

func newThreadWaiter(fd int) (*threadWaiter, error) {
	nudges, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return &threadWaiter{events: fd, nudges: nudges}, nil
}

func (w *threadWaiter) wait(done func() bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return os.ErrClosed
	}
	for !done() {
		fds := [2]unix.PollFd{{Fd: int32(w.events), Events: unix.POLLIN}, {Fd: int32(w.nudges), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds[:], -1); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if fds[1].Revents != 0 {
			_, err := unix.Read(w.nudges, make([]byte, 8))
			return err
		}
	}
	return nil
}

func (w *threadWaiter) nudge() { _, _ = unix.Write(w.nudges, []byte{0, 0, 0, 0, 0, 0, 0, 1}) }

func (w *threadWaiter) close() {
	w.nudge()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	_ = unix.Close(w.events)
	_ = unix.Close(w.nudges)
}

// await waits until found, which is called with mu held, reports true. It returns ErrClosed after
// close, or the context's error; found is called at least once before that.
func (s *socket) await(ctx context.Context, found func() bool) error {
	if ctx.Err() == nil {
		defer context.AfterFunc(ctx, s.wake)()
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
		err := s.waiter.wait(look)
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

// wake lets a goroutine inside await look again.
func (s *socket) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wakeLocked()
}

// wakeLocked is wake for callers that hold mu.
func (s *socket) wakeLocked() {
	if s.waiting {
		s.waiting = false
		s.waiter.nudge()
	}
}
