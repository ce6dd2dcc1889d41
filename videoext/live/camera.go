package live

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/session"
	"github.com/prefillonly/prefillonly/videoext/streams"
)

// sessionMessage is an action as the camera is told it.
func (s *stream) sessionMessage(action streams.Action) session.Message {
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

// serveCamera is a camera's session, until either side ends it.
func (s *stream) serveCamera(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex() // HTTP/2 is so anyway
	w.Header().Set("Content-Type", "application/octet-stream")
	w.WriteHeader(http.StatusOK)
	c := newConnection()
	s.begin(c)
	defer s.settle(c)
	var group sync.WaitGroup
	from := newPatientReader(r.Body, control)
	group.Go(func() { c.End(s.listenToCamera(r.Context(), c, from)) }) // ended below
	_ = control.Flush()
	err := c.Write(w, control)
	if err != nil {
		c.End(err.Error())
	}
	s.log.Info("a camera's session has ended", zap.String("why", c.Why()))
	select {
	case s.gone <- c:
	case <-s.stopped:
	}
	from.End()
	group.Wait()
}

// maxBeginning is how many sessions of a camera may begin at a time. One takes as long as its first message.
const maxBeginning = 16

// begin counts a session that begins. Where there are too many the oldest is ended: a camera says at once who it is.
func (s *stream) begin(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.beginning = append(s.beginning, c); len(s.beginning) > maxBeginning {
		s.beginning[0].End(fmt.Sprintf("%d other sessions of this camera have come meanwhile", maxBeginning))
		s.beginning = slices.Delete(s.beginning, 0, 1)
	}
}

// settle is of a session that has begun, or ended.
func (s *stream) settle(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beginning = slices.DeleteFunc(s.beginning, func(other *connection) bool { return other == c })
}

// listenToCamera takes in what the camera says, and returns why it does no more.
func (s *stream) listenToCamera(ctx context.Context, c *connection, body *patientReader) string {
	from := session.NewReader(bufio.NewReader(body)) // what is large passes it by
	hello, err := readGreeting(from)
	if err != nil {
		return err.Error()
	}
	if err := s.admit(ctx, demand{Rate: hello.Rate, Width: hello.Width, Height: hello.Height}); err != nil {
		s.recordRefusal(err)
		return err.Error()
	}
	body.Greeted()
	s.log.Info("a camera's session begins", zap.String("camera", hello.Camera), zap.Int("width", hello.Width), zap.Int("height", hello.Height), zap.Float64("rate", hello.Rate))
	for event, f := streams.Event(streams.Begun{}), (*footage)(nil); ; {
		if !s.offerIncoming(ctx, c, incoming{event, f, c}) {
			f.releaseFrames()
			return "the session was ended"
		}
		s.settle(c)
		m, held, err := readMessage(from, s.memory, s.by.Owner, c.Over())
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
			if event, f, err = s.eventOf(m, held); err != nil {
				return err.Error()
			}
		}
	}
}

// recordRefusal says of a stream without a session that a camera was refused.
func (s *stream) recordRefusal(why error) {
	s.log.Warn("a camera is refused", zap.Error(why))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == stateWaiting {
		s.reason = "its camera is refused: " + why.Error()
	}
}

// offerIncoming waits until a message is taken, or the session is over.
func (s *stream) offerIncoming(ctx context.Context, c *connection, m incoming) bool {
	select {
	case s.inbox <- m:
		return true
	case <-c.Over():
	case <-ctx.Done():
	case <-s.stopped:
	}
	return false
}

// eventOf is what a camera's message means.
func (s *stream) eventOf(m session.Message, held *memoryHold) (streams.Event, *footage, error) {
	switch m := m.(type) {
	case *session.Sent:
		times := make([]time.Duration, len(m.Frames))
		for _, u := range m.Data.Units {
			times[u.Order] = u.Time
		}
		s.figure.Sent(m.Stream, m.Container)
		s.recordEncoding(m)
		f := &footage{numbers: m.Frames, held: held, load: func(ctx context.Context) ([]*media.Frame, error) { return s.decodeSegment(ctx, m.Data, held) }}
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
