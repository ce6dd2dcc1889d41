package live

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/videoext/jobs"
	"github.com/prefillonly/prefillonly/videoext/journal"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/streams"
)

// mail is what an actor is to do next. It is not kept waiting by frames that are.
type mail func(ctx context.Context, a *actor)

// actor is the one goroutine that owns a stream's core, the footage under way and, in its intake, a camera's session.
type actor struct {
	*stream
	core    *streams.Core
	begun   time.Time
	footage map[track]*footage
	wake    time.Duration  // that the core asked for, since begun; never: it did not
	network sync.WaitGroup // of what the network is asked
}

const never = time.Duration(math.MaxInt64)

// runActor keeps the stream until ctx ends.
func (s *stream) runActor(ctx context.Context, from journal.Place) {
	defer close(s.stopped)
	c := streams.Config{New: s.intake.newServer, Rate: s.part.rate(), Deadline: s.spec.frameDeadline(), Next: from.Next, Number: from.Number, Time: from.Time}
	a := &actor{stream: s, core: streams.New(c), begun: time.Now(), footage: map[track]*footage{}, wake: never}
	timer := time.NewTimer(never)
	defer timer.Stop()
	minute := time.NewTicker(time.Minute)
	defer minute.Stop()
	s.log.Info("stream begins", zap.Int("segment", int(from.Next)), zap.Uint64("number", from.Number))
	for {
		inbox, until := s.intake.inbox(ctx, a)
		timer.Reset(min(a.wake, until) - a.now())
		select {
		case m := <-s.mail:
			m(ctx, a)
		case m := <-inbox:
			m(ctx, a)
		case <-s.inference.changed:
		case <-timer.C:
			if a.now() >= a.wake {
				a.wake = never
				_ = a.stepCore(ctx, streams.Tick{}) // it always makes sense
			}
		case <-minute.C:
			s.logStatus("stream")
		case <-ctx.Done():
			a.endStream(context.Cause(ctx))
			return
		}
	}
}

// now is the core's time.
func (a *actor) now() time.Duration { return time.Since(a.begun) }

// endStream lets go of all that the stream has.
func (a *actor) endStream(why error) {
	a.intake.end(why)
	a.network.Wait()
	for at := range a.footage {
		a.dropFrames(at)
	}
	a.logStatus("stream ends")
}

// takeFootage takes in frames, and keeps them while the core may ask for them: not of what came again, or makes no sense.
func (a *actor) takeFootage(ctx context.Context, e streams.Came, f *footage) error {
	at := track{e.Segment, e.Stream}
	fresh := a.footage[at] == nil
	if fresh {
		a.footage[at] = f
	} else {
		f.releaseFrames()
	}
	err := a.stepCore(ctx, e)
	if first := a.core.Told() - method.Segment(a.core.Under()); fresh && err != nil || e.Segment < first {
		a.dropFrames(at)
	}
	return err
}

// dropFrames lets go of frames.
func (a *actor) dropFrames(at track) {
	a.footage[at].releaseFrames()
	delete(a.footage, at)
}

// stepCore tells the core what happened, and does what it asks for. An error says that what happened makes no sense; nothing was done then.
func (a *actor) stepCore(ctx context.Context, event streams.Event) error {
	return a.stepSeen(ctx, event, jobs.Seen{})
}

// stepSeen is step of what the network said, with the frame that it saw last.
func (a *actor) stepSeen(ctx context.Context, event streams.Event, seen jobs.Seen) error {
	actions, err := a.core.Step(a.now(), event)
	if err != nil {
		return err
	}
	for _, action := range actions {
		switch e := action.(type) {
		case streams.Infer:
			a.inferFrame(ctx, e)
		case streams.Deliver:
			a.deliverResults(ctx, e.Results)
		case streams.Free:
			a.dropFrames(track{e.Segment, method.A})
			a.dropFrames(track{e.Segment, method.B})
		case streams.Wake:
			a.wake = e.At
		case streams.Finished:
			a.condition.setState(stateEnded, "")
			a.intake.finish()
			a.logStatus("stream has ended")
		default:
			a.intake.perform(ctx, a, action, seen)
		}
	}
	return nil
}

// inferFrame has the network find what is in frames.
func (a *actor) inferFrame(ctx context.Context, ask streams.Infer) {
	low, high, arrived := a.footage[track{ask.Segment, method.A}], a.footage[track{ask.Segment, ask.Stream}], time.Now()
	a.network.Go(func() { // ends with ctx, or before
		l := a.inference.inferFrames(ctx, ask, low, high, arrived)
		a.sendEvent(ctx, func(ctx context.Context, a *actor) { _ = a.stepSeen(ctx, l.answer, l.seen) }) // it always makes sense
		if ask.Stream == method.A {                                                                     // in the other one all but some regions is blank
			a.guards.compareLook(ctx, l)
		}
	})
}

// deliverResults gives results to those who listen.
func (a *actor) deliverResults(ctx context.Context, results []streams.Result) {
	lines := make([][]byte, len(results))
	for i := range results {
		lines[i] = a.resultLine(&results[i])
	}
	if !a.persistResults(ctx, lines) {
		return
	}
	a.figure.Count(results, a.core.Counts())
	if last := &results[len(results)-1]; last.Final && last.Why != streams.LeftOut {
		a.condition.setUnseen(last.Why)
	}
}

// resultLine is a result as those who listen get it.
func (a *actor) resultLine(r *streams.Result) []byte {
	model := a.inference.modelName()
	label := func(class int) string { return a.inference.maker.Label(model, class) }
	text, err := journal.Line(a.spec.Name, a.spec.Classes, r, label)
	if err != nil {
		text, _ = journal.Line(a.spec.Name, a.spec.Classes, &streams.Result{Number: r.Number, Segment: r.Segment, Frame: r.Frame, Of: r.Of, Final: r.Final, Why: err.Error()}, label)
	}
	return text
}

// Delays before results are written down again.
const (
	firstDelay = 500 * time.Millisecond
	maxDelay   = 30 * time.Second
)

// persistResults writes results down, before anyone is given them. While it cannot be done the stream stands still; false says that it is over meanwhile, and
// goes on before them when it is taken up.
func (a *actor) persistResults(ctx context.Context, lines [][]byte) bool {
	for delay := firstDelay; ; delay = min(2*delay, maxDelay) {
		err := a.journal.Add(lines)
		if err == nil {
			if delay > firstDelay {
				a.condition.setState(stateRunning, "")
			}
			return true
		}
		a.log.Error("the stream stands still", zap.Error(err), zap.Duration("delay", delay))
		a.condition.setState(stateWaiting, fmt.Sprintf("%v; it is tried again after %v", err, delay))
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return false
		}
	}
}
