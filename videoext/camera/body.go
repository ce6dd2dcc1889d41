package camera

import (
	"io"
	"sync"
)

// body is a request's body: messages one after the other.
type body struct {
	ready chan struct{} // told when there is room for the next one

	mu   sync.Mutex
	cond *sync.Cond
	data []byte // of the message that is being read
	end  error  // what reads get behind it
}

func newBody() *body {
	b := &body{ready: make(chan struct{}, 1)}
	b.cond = sync.NewCond(&b.mu)
	return b
}

// maxRead is how much is given at once, so that what waits is known here and not in what sends it.
const maxRead = 16 << 10

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.data) == 0 && b.end == nil {
		b.cond.Wait()
	}
	if len(b.data) == 0 {
		return 0, b.end
	}
	n := copy(p[:min(len(p), maxRead)], b.data)
	if b.data = b.data[n:]; len(b.data) == 0 {
		select {
		case b.ready <- struct{}{}:
		default:
		}
	}
	return n, nil
}

// putMessage gives a message, and says whether there was room.
func (b *body) putMessage(data []byte) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.data) > 0 || b.end != nil {
		return false
	}
	b.data = data
	b.cond.Signal()
	return true
}

// unreadBytes is how much of the message has not been read, and whether there is room for the next one.
func (b *body) unreadBytes() (n int, room bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.data), len(b.data) == 0 && b.end == nil
}

// Close implements io.Closer: it ends a read that waits, without which a connection that broke would wait for that read.
func (b *body) Close() error {
	b.endWithError(errDropped)
	return nil
}

// endWithEOF ends the body behind its message.
func (b *body) endWithEOF() { b.endWithError(io.EOF) }

// endWithError ends it with an error, at once if that is another one than io.EOF.
func (b *body) endWithError(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != io.EOF {
		b.data = nil
	}
	if b.end == nil {
		b.end = err
	}
	b.cond.Broadcast()
}
