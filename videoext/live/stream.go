package live

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/jobs"
	"github.com/prefillonly/prefillonly/videoext/journal"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/metrics"
	"github.com/prefillonly/prefillonly/videoext/streams"
)

// The states of a stream.
const (
	stateWaiting = "waiting" // for its camera or its source
	stateRunning = "running"
	stateEnded   = "ended"
	stateFailed  = "failed"
)

// stream is one that was declared. Its fields without a word are set once.
type stream struct {
	spec    Spec
	by      owner
	dir     string
	resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	admit   func(ctx context.Context, d demand) error // says what the stream brings; an error refuses it
	maker   *jobs.Maker
	log     *zap.Logger
	journal *journal.Journal
	from    journal.Place
	begun   time.Time
	memory  *memoryBudget // of all streams
	held    *memoryHold   // of it by the source that the server reads

	inbox     chan incoming
	gone      chan *connection // those that are over
	changed   chan struct{}    // gets a token when the network is another one
	inferred  chan sight
	gradients chan streams.GradientComputed
	stop      context.CancelCauseFunc
	stopped   chan struct{} // closed when nothing of it runs any more

	last     atomic.Pointer[shot]
	refused  atomic.Bool  // the network saw nothing of the last look
	tried    atomic.Int64 // when a frame was looked at that may be late, since begun
	figure   metrics.Figures
	segments segmentHistory // of a camera

	mu      sync.Mutex
	state   string        // guarded by mu
	reason  string        // guarded by mu
	unseen  string        // guarded by mu; why the network did not see the last frame; empty: it did
	network *jobs.Network // guarded by mu; nil: it is missing
	missing error         // guarded by mu; why
	demand  demand        // guarded by mu
	takes   float64       // guarded by mu; devices, when that was last known

	beginning []*connection // guarded by mu; sessions of the camera that have not begun, the oldest first

	broke time.Time // when a discontinuity was logged; owned by read

	// owned by run
	core    *streams.Core
	footage map[track]*footage
	frame   int64 // bytes of the last frame of a source
	session *connection
	sight   sight // that the core is told of
	timer   *time.Timer
	group   sync.WaitGroup // of looks
}

// incoming is what comes from a source or a camera.
type incoming struct {
	event   streams.Event
	footage *footage    // of a streams.Came
	session *connection // nil: of a source
}

type track struct {
	segment method.Segment
	stream  method.Stream
}

// footage is frames of a segment, which are decoded when they are first needed.
type footage struct {
	numbers  []int
	load     func(ctx context.Context) ([]*media.Frame, error)
	held     *memoryHold // nil: they are a source's, whose memory is its own
	bytes    int64       // of a source's frame
	once     sync.Once
	pictures []*media.Frame
	err      error
}

func (f *footage) loadFrames(ctx context.Context) ([]*media.Frame, error) {
	f.once.Do(func() {
		if f.pictures, f.err = f.load(ctx); f.err == nil && len(f.pictures) != len(f.numbers) {
			f.err = fmt.Errorf("%d frames came out of %d", len(f.pictures), len(f.numbers))
		}
	})
	return f.pictures, f.err
}

// releaseFrames says that the frames are needed no more.
func (f *footage) releaseFrames() {
	if f != nil && f.held != nil {
		f.held.End()
	}
}

// shot is a frame that was seen.
type shot struct {
	frame   *media.Frame
	segment method.Segment
	number  int
	at      time.Time
}

// isPlain says that the server reads the frames itself.
func (s *stream) isPlain() bool { return s.spec.Source != camera }

// dropsWhenFull says that frames are dropped when too many wait, and not waited for.
func (s *stream) dropsWhenFull() bool {
	return s.isPlain() && (s.spec.isRemote() || s.spec.Deadline > 0)
}

// isFull says that no more frames should come now. Large ones of a source may not all wait that may wait of small ones.
func (s *stream) isFull() bool {
	return s.core.Full() || s.isPlain() && !mayWait(s.core.Under()+1, s.frame)
}

// run keeps the stream until ctx ends.
func (s *stream) run(ctx context.Context) {
	defer close(s.stopped)
	s.begun = time.Now()
	c := streams.Config{New: s.spec.newServer, Rate: s.frameRate(), Deadline: s.spec.frameDeadline(), Next: s.from.Next, Number: s.from.Number, Time: s.from.Time}
	if s.isPlain() {
		c.New = s.spec.newPlain
	}
	s.core, s.footage = streams.New(c), map[track]*footage{}
	s.timer = time.NewTimer(time.Hour)
	defer s.timer.Stop()
	minute := time.NewTicker(time.Minute)
	defer minute.Stop()
	s.log.Info("stream begins", zap.Int("segment", int(s.from.Next)), zap.Uint64("number", s.from.Number))
	for {
		inbox := s.inbox
		if !s.dropsWhenFull() && (s.isFull() || s.isPlain() && s.isBlind()) {
			inbox = nil
		}
		select {
		case m := <-inbox:
			s.handleIncoming(ctx, m)
		case c := <-s.gone:
			if s.session == c {
				s.loseSession()
			}
		case <-s.changed:
		case s.sight = <-s.inferred:
			s.stepCore(ctx, s.sight.Inferred, nil)
			s.sight.Seen = jobs.Seen{}
		case r := <-s.gradients:
			s.stepCore(ctx, r, nil)
		case <-s.timer.C:
			s.stepCore(ctx, streams.Tick{}, nil)
		case <-minute.C:
			s.tell("stream")
		case <-ctx.Done():
			s.dropSession(context.Cause(ctx).Error())
			s.group.Wait()
			for at := range s.footage {
				s.forget(at)
			}
			s.held.End()
			s.tell("stream ends")
			return
		}
	}
}

// tell writes the line of a stream to the log.
func (s *stream) tell(what string) {
	f := s.figure.Now()
	s.log.Info(what, zap.String("state", s.status().State), zap.Uint64("frames", f.Frames), zap.Uint64("late", f.Late), zap.Uint64("dropped", f.Dropped), zap.Uint64("discontinuities", f.Discontinuities),
		zap.Float64("latency_ms", f.MeanLatency()), zap.Uint64("bytes_a", f.Bytes[method.A]), zap.Uint64("bytes_b", f.Bytes[method.B]), zap.Uint64("regions", f.Regions),
		zap.Float64("boxes_a_frame", f.BoxesPerFrame()), zap.Float64("score", f.MeanScore()))
}

// handleIncoming takes in what a source or a camera brings.
func (s *stream) handleIncoming(ctx context.Context, m incoming) {
	switch e := m.event.(type) {
	case streams.Begun:
		s.dropSession("another session of this camera has begun")
		s.session = m.session
		s.setState(stateRunning, "")
	case streams.Came:
		if s.isPlain() {
			e.Segment, s.frame = s.core.Told(), m.footage.bytes
			if s.isFull() {
				s.stepCore(ctx, streams.Missed{Segment: e.Segment, Of: 1, Time: e.Times[0], Broken: e.Broken, Why: fmt.Sprintf("%d frames wait for the network", s.core.Under())}, nil)
				return
			}
		}
		m.event = e
	case streams.Missed:
		if s.isPlain() {
			e.Segment = s.core.Told()
			m.event = e
		}
	}
	if m.session != s.session {
		m.footage.releaseFrames() // the session is over
		return
	}
	if e, ok := m.event.(streams.Came); ok {
		s.handleCame(ctx, e, &m)
		return
	}
	s.stepCore(ctx, m.event, m.session)
}

// handleCame takes in frames, and keeps them while the core may ask for them: not of what came again, or makes no sense.
func (s *stream) handleCame(ctx context.Context, e streams.Came, m *incoming) {
	at := track{e.Segment, e.Stream}
	fresh := s.footage[at] == nil
	if fresh {
		s.footage[at] = m.footage
	} else {
		m.footage.releaseFrames()
	}
	sense := s.stepCore(ctx, e, m.session)
	if first := s.core.Told() - method.Segment(s.core.Under()); fresh && !sense || e.Segment < first {
		s.forget(at)
	}
}

// forget lets go of frames.
func (s *stream) forget(at track) {
	s.footage[at].releaseFrames()
	delete(s.footage, at)
}

// dropSession ends the camera's session.
func (s *stream) dropSession(why string) {
	if s.session != nil {
		s.session.End(why)
		s.loseSession()
	}
}

// loseSession is without a session from now on, which is over.
func (s *stream) loseSession() {
	<-s.session.Over()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == stateRunning {
		s.state, s.reason = stateWaiting, s.session.Why()
	}
	s.session = nil
}

// stepCore asks the core, and does what it says. False says that what came made no sense.
func (s *stream) stepCore(ctx context.Context, event streams.Event, from *connection) bool {
	actions, err := s.core.Step(time.Since(s.begun), event)
	if err != nil {
		s.log.Warn("a camera's message makes no sense", zap.Error(err))
		s.dropSession(err.Error())
		return false
	}
	for _, action := range actions {
		switch a := action.(type) {
		case streams.Infer:
			s.inferFrames(ctx, a)
		case streams.ComputeGradient:
			s.requestGradient(ctx, a)
		case streams.Deliver:
			s.deliverResults(ctx, a.Results)
		case streams.Free:
			s.forget(track{a.Segment, method.A})
			s.forget(track{a.Segment, method.B})
		case streams.Wake:
			s.timer.Reset(a.At - time.Since(s.begun))
		case streams.Finished:
			s.handleFinished()
		default:
			s.sendAction(a)
		}
	}
	return true
}

// sendAction tells the camera, if there is one.
func (s *stream) sendAction(action streams.Action) {
	if s.session != nil && !s.session.Send(s.sessionMessage(action)) {
		s.dropSession("the camera does not take in what it is told")
	}
}

// inferFrames has the network look at frames.
func (s *stream) inferFrames(ctx context.Context, a streams.Infer) {
	low, high := s.footage[track{a.Segment, method.A}], s.footage[track{a.Segment, a.Stream}]
	arrived := time.Now()
	s.group.Go(func() { // ends with ctx, or before
		answer := sight{Inferred: streams.Inferred{ID: a.ID}}
		network, err := s.currentNetwork()
		var frames []*media.Frame
		if err == nil {
			frames, err = s.prepareFrames(ctx, a, low, high)
		}
		if err != nil {
			answer.Findings, answer.Why = make([]videoext.Findings, len(a.Frames)), make([]string, len(a.Frames))
			for i := range answer.Why {
				answer.Why[i] = err.Error()
			}
		} else {
			s.last.Store(&shot{frames[len(frames)-1], a.Segment, a.Frames[len(a.Frames)-1], arrived})
			name := "video/" + s.spec.Name
			if a.Stream == method.B {
				name += "/b"
			}
			var spent metrics.Spent
			l := jobs.Terms{Stream: name, Arrived: arrived, Deadline: s.spec.frameDeadline(), Promised: true, User: name, Last: &answer.Seen}
			if l.Deadline > 0 && s.shouldTryLate() {
				l.Deadline, l.Promised = max(2*l.Deadline, tryDeadline), false
			}
			answer.Findings, answer.Why, spent = s.maker.Infer(ctx, network, frames, l)
			s.refused.Store(!slices.Contains(answer.Why, ""))
			s.figure.Spend(spent)
		}
		select {
		case s.inferred <- answer:
		case <-ctx.Done():
		}
	})
}

// tryEvery is how often a stream whose frames are refused has one looked at without a promise, by tryDeadline or twice its own.
const (
	tryEvery    = 500 * time.Millisecond
	tryDeadline = 2 * time.Second
)

// shouldTryLate says that frames are to be looked at although they may be late. The pool refuses deadlines by what passes took lately, and would not learn that
// they take less than a few slow ones, such as the first after a start.
func (s *stream) shouldTryLate() bool {
	now, last := int64(time.Since(s.begun)), s.tried.Load()
	return s.refused.Load() && now-last > int64(tryEvery) && s.tried.CompareAndSwap(last, now)
}

// deliverResults gives results to those who listen.
func (s *stream) deliverResults(ctx context.Context, results []streams.Result) {
	model := s.modelName()
	label := func(class int) string { return s.maker.Label(model, class) }
	lines := make([][]byte, len(results))
	for i := range results {
		text, err := journal.Line(s.spec.Name, s.spec.Classes, &results[i], label)
		if err != nil {
			text, _ = journal.Line(s.spec.Name, s.spec.Classes, &streams.Result{Number: results[i].Number, Segment: results[i].Segment, Frame: results[i].Frame, Of: results[i].Of, Final: results[i].Final, Why: err.Error()}, label)
		}
		lines[i] = text
	}
	if s.persistResults(ctx, lines) {
		s.figure.Count(results, s.core.Counts())
		s.mu.Lock()
		defer s.mu.Unlock()
		if last := &results[len(results)-1]; last.Final && last.Why != streams.LeftOut {
			s.unseen = last.Why
		}
	}
}

// Delays before results are written down again.
const (
	firstDelay = 500 * time.Millisecond
	maxDelay   = 30 * time.Second
)

// persistResults writes results down, before anyone is given them. While it cannot be done the stream stands still; false says that it is over meanwhile, and
// goes on before them when it is taken up.
func (s *stream) persistResults(ctx context.Context, lines [][]byte) bool {
	for delay := firstDelay; ; delay = min(2*delay, maxDelay) {
		err := s.journal.Add(lines)
		if err == nil {
			if delay > firstDelay {
				s.setState(stateRunning, "")
			}
			return true
		}
		s.log.Error("the stream stands still", zap.Error(err), zap.Duration("delay", delay))
		s.setState(stateWaiting, fmt.Sprintf("%v; it is tried again after %v", err, delay))
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return false
		}
	}
}

// handleFinished is called when all frames have their results.
func (s *stream) handleFinished() {
	s.setState(stateEnded, "")
	if s.isPlain() {
		s.held.End()
		s.journal.Close()
		if err := os.WriteFile(filepath.Join(s.dir, endedFile), nil, 0o600); err != nil {
			s.log.Error("a stream would begin again", zap.Error(err))
		}
	}
	s.tell("stream has ended")
}

// endedFile marks streams that have ended.
const endedFile = "ended"

// frameRate is that of the frames that are to be expected; 0: it is not known.
func (s *stream) frameRate() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.demand.Rate
}

// currentNetwork is the network that looks at frames.
func (s *stream) currentNetwork() (*jobs.Network, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.network, s.missing
}

// modelName is the pool's name of the network, or what the stream calls it while it is missing.
func (s *stream) modelName() string {
	if n, err := s.currentNetwork(); err == nil {
		return n.Model
	}
	return s.spec.Model
}

func (s *stream) isBlind() bool { _, err := s.currentNetwork(); return err != nil }

// setNetwork sets what looks at frames from now on, or why nothing does.
func (s *stream) setNetwork(n *jobs.Network, missing error) {
	s.mu.Lock()
	s.network, s.missing = n, missing
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default: // one is on its way
	}
}

func (s *stream) setState(state, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.reason = state, reason
}

var errRemoved = errors.New("the stream was removed")
