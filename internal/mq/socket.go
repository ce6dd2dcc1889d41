package mq

import (
	"fmt"
	"os"
	"sync"
	"syscall"

	zmq "github.com/pebbe/zmq4"
)

// socket gives a ZeroMQ socket to one goroutine at a time. Every call on it is non-blocking and
// made under mu, which is the memory barrier libzmq asks for when a socket moves between threads;
// waiting is done by Go's own poller on the socket's event descriptor. So a message is sent by the
// goroutine that has it, with no hand-over, and no OS thread ever blocks inside libzmq.
//
// The event descriptor reports edges only, and any call on the socket may swallow one. Hence the
// rule: whoever used the socket calls readable before giving it up.
type socket struct {
	// set once
	zctx     *zmq.Context
	ownsCtx  bool
	events   *os.File // a duplicate of ZMQ_FD
	readable func()   // takes everything that can be received; called with mu held
	stopped  chan struct{}

	mu     sync.Mutex
	soc    *zmq.Socket // guarded by mu
	closed bool        // guarded by mu
}

// newSocket makes a socket in zctx, or in a context of its own when zctx is nil. start must follow.
func newSocket(kind zmq.Type, zctx *zmq.Context) (*socket, error) {
	s := &socket{zctx: zctx, stopped: make(chan struct{})}
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

// discard frees a socket that was not started.
func (s *socket) discard() {
	if s.soc != nil {
		_ = s.soc.Close()
	}
	if s.ownsCtx {
		_ = s.zctx.Term()
	}
}

// start begins to call readable; close ends the goroutine it starts.
func (s *socket) start(readable func()) error {
	s.readable = readable
	fd, err := s.soc.GetFd()
	if err != nil {
		return err
	}
	dup, err := syscall.Dup(fd)
	if err != nil {
		return fmt.Errorf("duplicate the socket's event descriptor: %w", err)
	}
	syscall.CloseOnExec(dup)
	s.events = os.NewFile(uintptr(dup), "zmq-events")
	conn, err := s.events.SyscallConn()
	if err != nil {
		return err
	}
	go func() {
		defer close(s.stopped)
		// The callback never reports success, so Read goes on waiting until the file is closed.
		_ = conn.Read(func(uintptr) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			if !s.closed {
				s.readable()
			}
			return s.closed
		})
	}()
	return nil
}

// send sends the frames as one message, under mu.
func (s *socket) send(frames ...[]byte) error {
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

// receive returns the next message, or false when there is none.
func (s *socket) receive() ([][]byte, bool) {
	frames, err := s.soc.RecvMessageBytes(zmq.DONTWAIT)
	return frames, err == nil
}

func (s *socket) close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	s.mu.Unlock()
	_ = s.events.Close()
	<-s.stopped
	s.discard()
}
