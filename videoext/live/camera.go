package live

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/session"
	"github.com/prefillonly/prefillonly/videoext/streams"
)

// cameraSession is one connection of a camera.
type cameraSession struct {
	out  chan session.Message
	over chan struct{} // closed when it is to end
	once sync.Once
	why  string // set before over is closed
}

// maxUntold is how many messages may wait for a camera.
const maxUntold = 256

func newCameraSession() *cameraSession {
	return &cameraSession{out: make(chan session.Message, maxUntold), over: make(chan struct{})}
}

// send gives the camera a message; false says that too many wait.
func (c *cameraSession) send(m session.Message) bool {
	select {
	case c.out <- m:
		return true
	default:
		return false
	}
}

func (c *cameraSession) end(why string) {
	c.once.Do(func() { c.why = why; close(c.over) })
}

// message is an action as the camera is told it.
func (s *stream) message(action streams.Action) session.Message {
	switch a := action.(type) {
	case streams.Welcome:
		return &session.Welcome{Method: s.spec.Method, Next: a.Next}
	case streams.Tell:
		return &session.Answered{Answer: a.Answer}
	case streams.Done:
		return &session.Done{Segment: a.Segment}
	}
	return &session.Refused{Reason: fmt.Sprintf("the server has no word for %T", action)}
}

// serve is a camera's session, until either side ends it.
func (s *stream) serve(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex() // HTTP/2 is so anyway
	w.Header().Set("Content-Type", "application/octet-stream")
	w.WriteHeader(http.StatusOK)
	c := newCameraSession()
	var group sync.WaitGroup
	from := &patient{from: r.Body, control: control, until: time.Now().Add(helloTimeout)}
	group.Go(func() { c.end(s.listen(r.Context(), c, from)) }) // ended below
	_ = control.Flush()
	err := c.write(w, control)
	if err != nil {
		c.end(err.Error())
	}
	s.log.Info("a camera's session has ended", zap.String("why", c.why))
	select {
	case s.gone <- c:
	case <-s.stopped:
	}
	from.end()
	group.Wait()
}

// write sends what is to be sent until the session is over, and then why.
func (c *cameraSession) write(w io.Writer, control *http.ResponseController) error {
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

// patient reads what a camera sends, and not for ever.
type patient struct {
	from    io.Reader
	control *http.ResponseController

	mu    sync.Mutex
	until time.Time // guarded by mu; 0: quietTimeout from each read on
	over  bool      // guarded by mu; nothing more is read
}

func (p *patient) Read(b []byte) (int, error) {
	if !p.extend() {
		return 0, errOver
	}
	n, err := p.from.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errors.New("the camera has said nothing for too long")
	}
	return n, err
}

var errOver = errors.New("the session is over")

// extend sets the deadline of the next read.
func (p *patient) extend() bool {
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

// greeted says that the first message has come.
func (p *patient) greeted() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = time.Time{}
}

// end ends the read that waits, and those to come.
func (p *patient) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	_ = p.control.SetReadDeadline(time.Unix(1, 0)) // writers of tests have none
}

// listen takes in what the camera says, and returns why it does no more.
func (s *stream) listen(ctx context.Context, c *cameraSession, body *patient) string {
	from := session.NewReader(bufio.NewReaderSize(body, 64<<10))
	first, err := from.Next()
	if err != nil {
		return err.Error()
	}
	hello, ok := first.(*session.Hello)
	if !ok {
		return fmt.Sprintf("a session begins with Hello, and this one with %T", first)
	}
	if err := s.admit(ctx, demand{hello.Rate, hello.Width, hello.Height}); err != nil {
		s.refuse(err)
		return err.Error()
	}
	body.greeted()
	s.log.Info("a camera's session begins", zap.String("camera", hello.Camera), zap.Int("width", hello.Width), zap.Int("height", hello.Height), zap.Float64("rate", hello.Rate))
	for event, f := streams.Event(streams.Begun{}), (*footage)(nil); ; {
		if !s.offer(ctx, c, incoming{event, f, c}) {
			return "the session was ended"
		}
		m, err := from.Next()
		var spoilt *session.SpoiltError
		switch {
		case errors.Is(err, io.EOF):
			return "the camera has hung up"
		case errors.As(err, &spoilt):
			s.log.Warn("what a camera sent cannot be used", zap.Error(err))
			event, f = streams.Missed{Segment: spoilt.Segment, Stream: spoilt.Stream, Of: spoilt.Of, Why: spoilt.Err.Error()}, nil
		case err != nil:
			return err.Error()
		default:
			if event, f, err = s.eventOf(m); err != nil {
				return err.Error()
			}
		}
	}
}

// refuse says of a stream without a session that a camera was refused.
func (s *stream) refuse(why error) {
	s.log.Warn("a camera is refused", zap.Error(why))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == stateWaiting {
		s.reason = "its camera is refused: " + why.Error()
	}
}

// offer waits until a message is taken, or the session is over.
func (s *stream) offer(ctx context.Context, c *cameraSession, m incoming) bool {
	select {
	case s.inbox <- m:
		return true
	case <-c.over:
	case <-ctx.Done():
	case <-s.stopped:
	}
	return false
}

// eventOf is what a camera's message means.
func (s *stream) eventOf(m session.Message) (streams.Event, *footage, error) {
	switch m := m.(type) {
	case *session.Sent:
		times := make([]time.Duration, len(m.Frames))
		for _, u := range m.Data.Units {
			times[u.Order] = u.Time
		}
		s.figure.Sent(m.Stream, m.Container)
		s.note(m)
		f := &footage{numbers: m.Frames, load: func(ctx context.Context) ([]*media.Frame, error) { return s.decode(ctx, m.Data) }}
		return streams.Came{Segment: m.Segment, Stream: m.Stream, Frames: m.Frames, Times: times, Of: m.Of}, f, nil
	case *session.Skipped:
		return streams.Missed{Segment: m.Segment, Stream: m.Stream, Of: m.Of}, nil, nil
	case *session.Resulted:
		return streams.Given{Results: m.Results}, nil, nil
	case *session.Ended:
		return streams.Ended{}, nil, nil
	}
	return nil, nil, fmt.Errorf("a camera does not say %T", m)
}
