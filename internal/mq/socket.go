package mq

import (
	"context"
	"fmt"
	"sync"

	zmq "github.com/pebbe/zmq4"
	"golang.org/x/sys/unix"
)

// socket gives a ZeroMQ socket to one goroutine at a time. Every call on it is non-blocking and
// made under mu, which is the memory barrier libzmq asks for when a socket moves between threads;
// waiting is done outside libzmq, on the socket's event descriptor. So a message is sent by the
// goroutine that has it and received by the one that wants it, with no hand-over.
//
// The event descriptor reports edges only, and any call on the socket may swallow one. Hence the
// rule: whoever used the socket calls leave before giving it up, or is the one who will look again.
type socket struct {
	// set once
	zctx    *zmq.Context
	ownsCtx bool
	waiter  *waiter
	stopped chan struct{} // closed when serve's goroutine has ended; nil without one

	mu      sync.Mutex
	soc     *zmq.Socket // guarded by mu
	closed  bool        // guarded by mu
	waiting bool        // guarded by mu; await has found nothing and was not nudged since
}

// newSocket makes a socket in zctx, or in a context of its own when zctx is nil. watch must follow.
func newSocket(kind zmq.Type, zctx *zmq.Context) (*socket, error) {
	s := &socket{zctx: zctx}
	if zctx == nil {
		var err error
		if s.zctx, err = zmq.NewContext(); err != nil {
			return nil, err
		}
		s.ownsCtx = true
	}
	var err error
	if s.soc, err = s.zctx.NewSocket(kind); err != nil {
		s.discard()
		return nil, err
	}
	err = firstError(
		s.soc.SetLinger(0),
		s.soc.SetSndhwm(0), // unlimited: what is in flight is bounded by admission
		s.soc.SetRcvhwm(0),
		s.soc.SetMaxmsgsize(maxFrameBytes),
	)
	if err != nil {
		s.discard()
		return nil, err
	}
	return s, nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// discard frees a socket that is not watched.
func (s *socket) discard() {
	if s.soc != nil {
		_ = s.soc.Close()
	}
	if s.ownsCtx {
		_ = s.zctx.Term()
	}
}

// startWaiter makes the waiter of the socket's events.
func (s *socket) startWaiter() error {
	fd, err := s.soc.GetFd()
	if err != nil {
		return err
	}
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("duplicate the socket's event descriptor: %w", err)
	}
	s.waiter, err = newWaiter(dup)
	return err
}

// serveReadable watches the socket and calls readable, with mu held, whenever something may have come; close
// ends the goroutine it starts.
func (s *socket) serveReadable(readable func()) error {
	if err := s.startWaiter(); err != nil {
		return err
	}
	s.stopped = make(chan struct{})
	go func() {
		defer close(s.stopped)
		_ = s.awaitFound(context.Background(), func() bool { readable(); return false })
	}()
	return nil
}

// sendFrames sends the frames as one message, under mu.
func (s *socket) sendFrames(frames ...[]byte) error {
	for i, f := range frames {
		flags := zmq.DONTWAIT
		if i < len(frames)-1 {
			flags |= zmq.SNDMORE
		}
		if _, err := s.soc.SendBytes(f, flags); err != nil {
			return err
		}
	}
	return nil
}

// receiveMessage returns the next message, or false when there is none.
func (s *socket) receiveMessage() ([][]byte, bool) {
	frames, err := s.soc.RecvMessageBytes(zmq.DONTWAIT)
	return frames, err == nil
}

// receiveFrom is receive for a ROUTER, whose first frame is the connection. With keys it also returns the
// sender's public key, which the guard has put beside the connection.
func (s *socket) receiveFrom(keys bool) (frames [][]byte, key string, ok bool) {
	if !keys {
		frames, ok = s.receiveMessage()
		return frames, "", ok
	}
	from, err := s.soc.RecvBytes(zmq.DONTWAIT)
	if err != nil {
		return nil, "", false
	}
	body, properties, err := s.soc.RecvMessageBytesWithMetadata(zmq.DONTWAIT, userID)
	return append([][]byte{from}, body...), properties[userID], err == nil
}

func (s *socket) close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	s.mu.Unlock()
	s.waiter.close()
	if s.stopped != nil {
		<-s.stopped
	}
	s.discard()
}
