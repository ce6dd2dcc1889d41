package live

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/prefillonly/prefillonly/videoext/session"
)

// connection is what is said to a camera over one connection.
type connection struct {
	out  chan session.Message
	over chan struct{} // closed when it is to end
	once sync.Once
	why  string // set before over is closed
}

// maxUntold is how many messages may wait for a camera.
const maxUntold = 256

// newConnection makes one.
func newConnection() *connection {
	return &connection{out: make(chan session.Message, maxUntold), over: make(chan struct{})}
}

// Send gives the camera a message; false says that too many wait.
func (c *connection) Send(m session.Message) bool {
	select {
	case c.out <- m:
		return true
	default:
		return false
	}
}

// End ends it; the camera is told why.
func (c *connection) End(why string) {
	c.once.Do(func() { c.why = why; close(c.over) })
}

// Over is closed when it is to end.
func (c *connection) Over() <-chan struct{} { return c.over }

// Why says why it has ended, once Over is closed.
func (c *connection) Why() string { return c.why }

// Write sends what is to be sent until the session is over, and then why.
func (c *connection) Write(w io.Writer, control *http.ResponseController) error {
	put := func(m session.Message) error {
		data, err := session.Append(nil, m)
		if err == nil {
			_ = control.SetWriteDeadline(time.Now().Add(takeTimeout)) // writers of tests have none
			_, err = w.Write(data)
		}
		if err == nil {
			err = control.Flush()
		}
		return err
	}
	for {
		select {
		case m := <-c.out:
			if err := put(m); err != nil {
				return err
			}
			continue
		case <-c.over:
		}
		for len(c.out) > 0 {
			if err := put(<-c.out); err != nil {
				return err
			}
		}
		return put(&session.Refused{Reason: c.why})
	}
}

// What a camera may take its time for.
const (
	helloTimeout = 10 * time.Second // for its first message
	quietTimeout = 2 * time.Minute  // for the next bytes
)

// takeTimeout is how long a client may take to take in a piece of what it is told.
const takeTimeout = 30 * time.Second

// patientReader reads what a camera sends, and not for ever.
type patientReader struct {
	from    io.Reader
	control *http.ResponseController

	mu    sync.Mutex
	until time.Time // guarded by mu; 0: quietTimeout from each read on
	over  bool      // guarded by mu; nothing more is read
}

// newPatientReader reads from a request's body. The first message has HelloTimeout.
func newPatientReader(from io.Reader, control *http.ResponseController) *patientReader {
	return &patientReader{from: from, control: control, until: time.Now().Add(helloTimeout)}
}

// Read implements io.Reader.
func (p *patientReader) Read(b []byte) (int, error) {
	if !p.extendDeadline() {
		return 0, errOver
	}
	n, err := p.from.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errors.New("the camera has said nothing for too long")
	}
	return n, err
}

var errOver = errors.New("the session is over")

// extendDeadline sets the deadline of the next read.
func (p *patientReader) extendDeadline() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	until := p.until
	if until.IsZero() {
		until = time.Now().Add(quietTimeout)
	}
	if !p.over {
		_ = p.control.SetReadDeadline(until) // writers of tests have none
	}
	return !p.over
}

// Greeted says that the first message has come.
func (p *patientReader) Greeted() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = time.Time{}
}

// End ends the read that waits, and those to come.
func (p *patientReader) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	_ = p.control.SetReadDeadline(time.Unix(1, 0)) // writers of tests have none
}

// readGreeting is the message that begins a session.
func readGreeting(from *session.Reader) (*session.Hello, error) {
	n, err := from.Length(session.MaxHelloBytes)
	if err != nil {
		return nil, err
	}
	first, err := from.Body(n)
	if err != nil {
		return nil, err
	}
	hello, ok := first.(*session.Hello)
	if !ok {
		return nil, fmt.Errorf("a session begins with Hello, and this one with %T", first)
	}
	return hello, nil
}

// readMessage waits for the camera's next message, and takes an owner's memory for it before it is read: that of frames is held until they are needed no more.
func readMessage(from *session.Reader, m *memoryBudget, owner string, over <-chan struct{}) (session.Message, *memoryHold, error) {
	n, err := from.Length(session.MaxBytes)
	if err != nil {
		return nil, nil, err
	}
	held := m.Hold(owner)
	if err := held.Await(int64(n), "a message of the camera", over); err != nil {
		return nil, nil, err
	}
	said, err := from.Body(n)
	if _, frames := said.(*session.Sent); err != nil || !frames {
		held.End()
	}
	return said, held, err
}
