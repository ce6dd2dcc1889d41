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
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/session"
	"github.com/prefillonly/prefillonly/videoext/streams"
)

// serveCamera is a camera's session, until either side ends it.
func (i *cameraIntake) serveCamera(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex() // HTTP/2 is so anyway
	w.Header().Set("Content-Type", "application/octet-stream")
	w.WriteHeader(http.StatusOK)
	c := newConnection()
	i.countSession(c)
	defer i.settleSession(c)
	var group sync.WaitGroup
	from := newPatientReader(r.Body, control)
	group.Go(func() { c.End(i.listenToCamera(r.Context(), c, from)) }) // ended below
	_ = control.Flush()
	err := c.Write(w, control)
	if err != nil {
		c.End(err.Error())
	}
	i.log.Info("a camera's session has ended", zap.String("why", c.Why()))
	i.sendEvent(context.Background(), func(_ context.Context, _ *actor) { // or the stream is over
		if i.session == c {
			i.loseSession()
		}
	})
	from.End()
	group.Wait()
}

// maxBeginning is how many sessions of a camera may begin at a time. One takes as long as its first message.
const maxBeginning = 16

// countSession counts a session that begins. Where there are too many the oldest is ended: a camera says at once who it is.
func (i *cameraIntake) countSession(c *connection) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.beginning = append(i.beginning, c); len(i.beginning) > maxBeginning {
		i.beginning[0].End(fmt.Sprintf("%d other sessions of this camera have come meanwhile", maxBeginning))
		i.beginning = slices.Delete(i.beginning, 0, 1)
	}
}

// settleSession is of a session that has begun, or ended.
func (i *cameraIntake) settleSession(c *connection) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.beginning = slices.DeleteFunc(i.beginning, func(other *connection) bool { return other == c })
}

// listenToCamera takes in what the camera says, and returns why it does no more.
func (i *cameraIntake) listenToCamera(ctx context.Context, c *connection, body *patientReader) string {
	from := session.NewReader(bufio.NewReader(body)) // what is large passes it by
	hello, err := readGreeting(from)
	if err != nil {
		return err.Error()
	}
	if err := i.admit(ctx, demand{Rate: hello.Rate, Width: hello.Width, Height: hello.Height}); err != nil {
		i.log.Warn("a camera is refused", zap.Error(err))
		i.condition.refuseCamera(err)
		return err.Error()
	}
	body.Greeted()
	i.log.Info("a camera's session begins", zap.String("camera", hello.Camera), zap.Int("width", hello.Width), zap.Int("height", hello.Height), zap.Float64("rate", hello.Rate))
	to, next, frames := i.mail, mail(func(ctx context.Context, a *actor) { i.beginSession(ctx, a, c) }), (*footage)(nil)
	for i.offerConnection(ctx, c, to, next) {
		i.settleSession(c)
		m, err := i.readHeard(from, c)
		if err != nil {
			return err.Error()
		}
		to, next, frames = i.coming, func(ctx context.Context, a *actor) { i.receiveHeard(ctx, a, m) }, m.footage
	}
	frames.releaseFrames()
	return "the session was ended"
}

// offerConnection waits until the actor takes what a session brings, or the session is over.
func (i *cameraIntake) offerConnection(ctx context.Context, c *connection, to chan<- mail, m mail) bool {
	select {
	case to <- m:
		return true
	case <-c.Over():
	case <-ctx.Done():
	case <-i.stopped:
	}
	return false
}

// readHeard waits for the next message of a session.
func (i *cameraIntake) readHeard(from *session.Reader, c *connection) (*heard, error) {
	m, held, err := readMessage(from, i.memory, i.by.Owner, c.Over())
	var spoilt *session.SpoiltError
	switch {
	case errors.Is(err, io.EOF):
		return nil, errors.New("the camera has hung up")
	case errors.As(err, &spoilt):
		i.log.Warn("what a camera sent cannot be used", zap.Error(err))
		return &heard{session: c, event: streams.Missed{Segment: spoilt.Segment, Stream: spoilt.Stream, Of: spoilt.Of, Why: spoilt.Err.Error()}}, nil
	case err != nil:
		return nil, err
	}
	event, f, err := i.eventOf(m, held)
	return &heard{session: c, event: event, footage: f}, err
}

// eventOf is what a camera's message means.
func (i *cameraIntake) eventOf(m session.Message, held *memoryHold) (streams.Event, *footage, error) {
	switch m := m.(type) {
	case *session.Sent:
		times := make([]time.Duration, len(m.Frames))
		for _, u := range m.Data.Units {
			times[u.Order] = u.Time
		}
		i.figure.Sent(m.Stream, m.Container)
		i.recordEncoding(m)
		f := &footage{numbers: m.Frames, letGo: held.End, load: func(ctx context.Context) ([]*media.Frame, error) { return i.inference.decodeSegment(ctx, m.Data, held) }}
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

// recordEncoding keeps how a camera has encoded a segment, on the stream that its knobs are of.
func (i *cameraIntake) recordEncoding(m *session.Sent) {
	if m.Stream != method.A {
		return
	}
	i.history.addSegment(Segment{
		Number: m.Segment, Of: m.Of, Frames: len(m.Frames), Bytes: m.Container, Seconds: float64(m.Of) / m.Data.Rate, Width: m.Data.Width, Height: m.Data.Height,
		Quantisers: quantiserGrid(m.Knobs.Quantisers), BBias: m.Knobs.BBias,
	})
}
