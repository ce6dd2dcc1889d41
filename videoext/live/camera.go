package live

import (
	"context"
	"fmt"
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
	pace    pace
	parked  []*heard      // a segment that waits until it may be taken, and what was said of it meanwhile
	onward  time.Duration // when more is read behind it, if it is not taken before
	warned  time.Time     // when it was logged that the camera is too fast
}

func newCameraIntake(st *stream, memory *memoryBudget, admit func(ctx context.Context, d demand) error) *cameraIntake {
	i := &cameraIntake{stream: st, admit: admit, memory: memory, coming: make(chan mail)}
	if m, err := st.spec.newMethod(); err == nil { // it was checked
		i.pace.most = float64((streams.DefaultMost + 1) * m.Frames) // those that are not done, and the one that it captures
	}
	return i
}

// heard is what a camera has said in a session.
type heard struct {
	session *connection
	event   streams.Event
	footage *footage // of a streams.Came
}

// of is the segment that a message is of, and how many frames it has; -1: it is of none.
func (m *heard) of() (segment method.Segment, stream method.Stream, frames int) {
	switch e := m.event.(type) {
	case streams.Came:
		return e.Segment, e.Stream, e.Of
	case streams.Missed:
		return e.Segment, e.Stream, e.Of
	case streams.Given:
		return e.Segment, method.B, len(e.Frames)
	}
	return -1, method.B, 0
}

// opens says that a message begins a segment of which nothing has come, behind those before next.
func (m *heard) opens(next method.Segment) bool {
	segment, stream, _ := m.of()
	return stream == method.A && segment >= next
}

func (i *cameraIntake) newServer() method.Server { return i.spec.newServer() }

// maxParked is how many messages may wait.
const maxParked = 8

// inbox implements intake. Behind a segment that waits for the network nothing is read; behind one that comes too early, more in time.
func (i *cameraIntake) inbox(ctx context.Context, a *actor) (<-chan mail, time.Duration) {
	if len(i.parked) == 0 {
		return i.coming, never
	}
	wait := i.wait(a, i.parked[0])
	if wait == 0 {
		i.takeParked(ctx, a)
		return i.inbox(ctx, a)
	}
	switch now := a.now(); {
	case wait == never:
		return nil, never
	case len(i.parked) >= maxParked:
		return nil, now + wait
	case now < i.onward:
		return nil, min(now+wait, i.onward)
	default:
		return i.coming, now + wait
	}
}

// wait is for how long a segment is to wait; never: until the network has said what is in others.
func (i *cameraIntake) wait(a *actor, m *heard) time.Duration {
	if a.core.Full() {
		return never
	}
	return i.pace.waitForFrame(a.now(), i.cost(a, m))
}

// cost is how many frames come with a message that opens a segment.
func (i *cameraIntake) cost(a *actor, m *heard) float64 {
	segment, _, frames := m.of()
	return float64(segment-a.core.Told()+1) * float64(frames)
}

// receiveHeard takes in what a camera says.
func (i *cameraIntake) receiveHeard(ctx context.Context, a *actor, m *heard) {
	if m.session != i.session {
		m.footage.releaseFrames() // the session is over
		return
	}
	next := a.core.Told()
	if len(i.parked) > 0 {
		segment, _, _ := m.of()
		first, _, _ := i.parked[0].of()
		switch {
		case m.opens(first + 1): // the camera does not wait
			i.dropParked(ctx, a)
			i.receiveHeard(ctx, a, m)
		case segment >= 0 && segment < next:
			i.handleMessage(ctx, a, m)
		default:
			i.parked = append(i.parked, m)
		}
		return
	}
	if !m.opens(next) {
		i.handleMessage(ctx, a, m)
		return
	}
	if i.wait(a, m) == 0 {
		i.open(ctx, a, m)
		return
	}
	i.parked, i.onward = []*heard{m}, a.now()+i.pace.lasts(i.cost(a, m))/4 // at most four times what was admitted is read
}

// open takes in a segment.
func (i *cameraIntake) open(ctx context.Context, a *actor, m *heard) {
	cost := i.cost(a, m)
	if i.handleMessage(ctx, a, m) {
		i.pace.takeFrame(cost)
	}
}

// takeParked takes in the segment that has waited, and what was said of it.
func (i *cameraIntake) takeParked(ctx context.Context, a *actor) {
	all := i.parked
	i.parked = nil
	i.open(ctx, a, all[0])
	for _, m := range all[1:] {
		i.receiveHeard(ctx, a, m)
	}
}

// dropParked drops the segment that waits, which has a result for each of its frames even so.
func (i *cameraIntake) dropParked(ctx context.Context, a *actor) {
	all := i.parked
	i.parked = nil
	if time.Since(i.warned) > time.Minute {
		i.warned = time.Now()
		i.log.Warn("a camera sends more frames than it was admitted with: what it does not keep back is dropped", zap.Float64("rate", i.pace.rate))
	}
	segment, _, frames := all[0].of()
	missed := streams.Missed{Segment: segment, Of: frames, Why: fmt.Sprintf("the camera sends more than the %.4g frames a second that it was admitted with", i.pace.rate)}
	if e, ok := all[0].event.(streams.Came); ok && len(e.Frames) > 0 && e.Frames[0] == 0 {
		missed.Time, missed.Broken = e.Times[0], e.Broken
	}
	all[0].footage.releaseFrames()
	i.handleMessage(ctx, a, &heard{session: i.session, event: missed})
	for _, m := range all[1:] {
		i.receiveHeard(ctx, a, m)
	}
}

// handleMessage takes in a message. False says that it makes no sense, which ends the session.
func (i *cameraIntake) handleMessage(ctx context.Context, a *actor, m *heard) bool {
	var err error
	if e, ok := m.event.(streams.Came); ok {
		err = a.takeFootage(ctx, e, m.footage)
	} else {
		err = a.stepCore(ctx, m.event)
	}
	if err != nil {
		i.log.Warn("a camera's message makes no sense", zap.Error(err))
		i.dropSession(err.Error())
	}
	return err == nil
}

// beginSession gives the stream to a session.
func (i *cameraIntake) beginSession(ctx context.Context, a *actor, c *connection) {
	i.dropSession("another session of this camera has begun")
	i.session = c
	i.pace.rate = i.part.rate()
	i.condition.setState(stateRunning, "")
	_ = a.stepCore(ctx, streams.Begun{}) // it always makes sense
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
	for _, m := range i.parked {
		m.footage.releaseFrames()
	}
	i.parked = nil
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
		i.sendEvent(ctx, func(ctx context.Context, a *actor) {
			_ = a.stepCore(ctx, streams.GradientComputed{GradientComputed: answer}) // it always makes sense
		})
	})
}

// segmentDuration is how long a segment of a camera lasts.
func (i *cameraIntake) segmentDuration() time.Duration {
	m, err := i.spec.newMethod()
	rate := i.part.rate()
	if err != nil || rate <= 0 { // the method was checked, and a camera says its rate
		return time.Second
	}
	return secondsLong(float64(m.Frames) / rate)
}

// finish implements intake: another session may bring more.
func (i *cameraIntake) finish() {}

func (i *cameraIntake) end(why error) { i.dropSession(why.Error()) }
