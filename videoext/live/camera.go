package live

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/videoext/jobs"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/session"
	"github.com/prefillonly/prefillonly/videoext/streams"
)

// cameraIntake brings what a camera sends in its sessions, of which the last one has the stream.
type cameraIntake struct {
	*stream
	admit  func(ctx context.Context, d demand) error // says what a camera brings; an error refuses it
	memory *memoryBudget                             // what it sends takes of it
	coming chan mail

	history segmentHistory

	mu        sync.Mutex
	beginning []*connection // guarded by mu; sessions that have not begun, the oldest first

	// owned by the actor
	session *connection // nil: there is none
	parked  *heard      // a segment that waits until it may be taken; nothing behind it is
}

func newCameraIntake(st *stream, memory *memoryBudget, admit func(ctx context.Context, d demand) error) *cameraIntake {
	return &cameraIntake{stream: st, admit: admit, memory: memory, coming: make(chan mail)}
}

// heard is what a camera has said in a session.
type heard struct {
	session *connection
	event   streams.Event
	footage *footage // of a streams.Came
}

// opens says that a message begins a segment of which nothing has come.
func (m *heard) opens(next method.Segment) bool {
	switch e := m.event.(type) {
	case streams.Came:
		return e.Stream == method.A && e.Segment >= next
	case streams.Missed:
		return e.Stream == method.A && e.Segment >= next
	}
	return false
}

func (i *cameraIntake) newServer() method.Server { return i.spec.newServer() }

// inbox implements intake: nothing is read behind a segment that is one too many now, and what those under way wait for is before it.
func (i *cameraIntake) inbox(ctx context.Context, a *actor) <-chan mail {
	if m := i.parked; m != nil {
		if a.core.Full() {
			return nil
		}
		i.parked = nil
		i.handle(ctx, a, m)
	}
	return i.coming
}

// take takes in what a camera says.
func (i *cameraIntake) take(ctx context.Context, a *actor, m *heard) {
	switch {
	case m.session != i.session:
		m.footage.release() // the session is over
	case a.core.Full() && m.opens(a.core.Told()):
		i.parked = m
	default:
		i.handle(ctx, a, m)
	}
}

func (i *cameraIntake) handle(ctx context.Context, a *actor, m *heard) {
	var err error
	if e, ok := m.event.(streams.Came); ok {
		err = a.takeFootage(ctx, e, m.footage)
	} else {
		err = a.step(ctx, m.event)
	}
	if err != nil {
		i.log.Warn("a camera's message makes no sense", zap.Error(err))
		i.dropSession(err.Error())
	}
}

// beginSession gives the stream to a session.
func (i *cameraIntake) beginSession(ctx context.Context, a *actor, c *connection) {
	i.dropSession("another session of this camera has begun")
	i.session = c
	i.condition.setState(stateRunning, "")
	_ = a.step(ctx, streams.Begun{}) // it always makes sense
}

// dropSession ends the session.
func (i *cameraIntake) dropSession(why string) {
	if i.session != nil {
		i.session.End(why)
		i.loseSession()
	}
}

// loseSession is without a session from now on, which is over.
func (i *cameraIntake) loseSession() {
	<-i.session.Over() // why is known then
	if i.parked != nil {
		i.parked.footage.release()
		i.parked = nil
	}
	i.condition.loseCamera(i.session.Why())
	i.session = nil
}

// perform implements intake: it tells the camera, if there is one.
func (i *cameraIntake) perform(ctx context.Context, a *actor, action streams.Action, seen jobs.Seen) {
	switch e := action.(type) {
	case streams.ComputeGradient:
		i.computeGradient(ctx, a, e.Segment, seen)
	case streams.Welcome:
		i.tell(&session.Welcome{Method: i.spec.Method, Next: e.Next})
	case streams.Tell:
		i.tell(&session.Answered{Answer: e.Answer})
	case streams.Done:
		i.tell(&session.Done{Segment: e.Segment})
	}
}

func (i *cameraIntake) tell(m session.Message) {
	if i.session != nil && !i.session.Send(m) {
		i.dropSession("the camera does not take in what it is told")
	}
}

// computeGradient has the gradient of the frame that the network saw last told to the camera.
func (i *cameraIntake) computeGradient(ctx context.Context, a *actor, segment method.Segment, seen jobs.Seen) {
	interval := i.segmentDuration()
	a.network.Go(func() { // ends with ctx, or before
		answer := method.GradientComputed{Segment: segment, Gradient: i.inference.computeGradient(ctx, segment, &seen, interval)}
		if answer.Gradient != nil {
			i.history.addGradient(segment, answer.Gradient)
		}
		i.send(ctx, func(ctx context.Context, a *actor) {
			_ = a.step(ctx, streams.GradientComputed{GradientComputed: answer})
		}) // it always makes sense
	})
}

// segmentDuration is how long a segment of a camera lasts.
func (i *cameraIntake) segmentDuration() time.Duration {
	m, err := i.spec.newMethod()
	rate := i.part.rate()
	if err != nil || rate <= 0 { // the method was checked, and a camera says its rate
		return time.Second
	}
	return time.Duration(float64(m.Frames) / rate * float64(time.Second))
}

// finish implements intake: another session may bring more.
func (i *cameraIntake) finish() {}

func (i *cameraIntake) end(why error) { i.dropSession(why.Error()) }
