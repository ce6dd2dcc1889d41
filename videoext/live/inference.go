package live

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/jobs"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/metrics"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/streams"
)

// inference is what a stream asks its network: what is in frames, and how that changes with them. Its methods are safe for concurrent use.
type inference struct {
	spec   *Spec
	maker  *jobs.Maker
	figure *metrics.Figures
	log    *zap.Logger
	begun  time.Time

	last    atomic.Pointer[shot]
	refused atomic.Bool   // the network saw none of the frames that it was asked about last
	tried   atomic.Int64  // when it was asked about a frame that may be late, since begun
	changed chan struct{} // gets a token when the network is another one

	mu      sync.Mutex
	network *jobs.Network // guarded by mu; nil: it is missing
	missing error         // guarded by mu; why
}

func newInference(spec *Spec, maker *jobs.Maker, figure *metrics.Figures, log *zap.Logger) *inference {
	return &inference{spec: spec, maker: maker, figure: figure, log: log, begun: time.Now(), changed: make(chan struct{}, 1)}
}

// shot is a frame that the network was asked about.
type shot struct {
	frame   *media.Frame
	segment method.Segment
	number  int
}

// currentNetwork is the network that is asked.
func (i *inference) currentNetwork() (*jobs.Network, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.network, i.missing
}

// modelName is the pool's name of the network, or what the stream calls it while it is missing.
func (i *inference) modelName() string {
	if n, err := i.currentNetwork(); err == nil {
		return n.Model
	}
	return i.spec.Model
}

// isMissing says that there is no network to ask.
func (i *inference) isMissing() bool { _, err := i.currentNetwork(); return err != nil }

// setNetwork sets what is asked from now on, or why nothing is.
func (i *inference) setNetwork(n *jobs.Network, missing error) {
	i.mu.Lock()
	i.network, i.missing = n, missing
	i.mu.Unlock()
	select {
	case i.changed <- struct{}{}:
	default: // one is on its way
	}
}

// look is what a network said of frames.
type look struct {
	network *jobs.Network // nil: there was none
	frames  []*media.Frame
	answer  streams.Inferred
	seen    jobs.Seen // the last frame that the network saw whole
}

// inferFrames asks what is in frames of a segment, whose streams A and the one that is asked about are low and high.
func (i *inference) inferFrames(ctx context.Context, ask streams.Infer, low, high *footage, arrived time.Time) *look {
	l := &look{answer: streams.Inferred{ID: ask.ID}}
	network, err := i.currentNetwork()
	var frames []*media.Frame
	if err == nil {
		frames, err = i.prepareFrames(ctx, ask, low, high)
	}
	if err != nil {
		l.answer.Findings, l.answer.Why = make([]videoext.Findings, len(ask.Frames)), slices.Repeat([]string{err.Error()}, len(ask.Frames))
		return l
	}
	l.network, l.frames = network, frames
	i.last.Store(&shot{frames[len(frames)-1], ask.Segment, ask.Frames[len(ask.Frames)-1]})
	name := "video/" + i.spec.Name
	terms := jobs.Terms{Stream: name, Arrived: arrived, Deadline: i.spec.frameDeadline(), Promised: true, User: name, Last: &l.seen}
	if ask.Stream == method.B {
		terms.Stream += "/b"
		terms.User = terms.Stream
	}
	if terms.Deadline > 0 && i.shouldTryLate() {
		terms.Deadline, terms.Promised = max(2*terms.Deadline, tryDeadline), false
	}
	var spent metrics.Spent
	l.answer.Findings, l.answer.Why, spent = i.maker.Infer(ctx, network, frames, terms)
	i.refused.Store(!slices.Contains(l.answer.Why, ""))
	i.figure.Spend(spent)
	return l
}

// tryEvery is how often a stream whose frames are refused asks about one without a promise, by tryDeadline or twice its own.
const (
	tryEvery    = 500 * time.Millisecond
	tryDeadline = 2 * time.Second
)

// shouldTryLate says that frames are to be inferred although they may be late. The pool refuses deadlines by what passes took lately, and would not learn that
// they take less than a few slow ones, such as the first after a start.
func (i *inference) shouldTryLate() bool {
	now, last := int64(time.Since(i.begun)), i.tried.Load()
	return i.refused.Load() && now-last > int64(tryEvery) && i.tried.CompareAndSwap(last, now)
}

// computeGradient asks for the gradient of a frame that the network saw, with an interval for its deadline. One that has not begun after that is dropped; one
// that has is waited for as long as the camera uses it. Nil: nothing came of it.
func (i *inference) computeGradient(ctx context.Context, segment method.Segment, seen *jobs.Seen, interval time.Duration) *oneadapt.Map {
	asked, name := time.Now(), "video/"+i.spec.Name
	limited, stop := context.WithTimeout(ctx, time.Duration(oneadapt.Usual().Fresh)*interval)
	defer stop()
	terms := jobs.Terms{Stream: name + "/gradient", Arrived: asked, Deadline: interval, Promised: i.spec.frameDeadline() > 0, User: name}
	gradient, told, computing, err := i.runGradient(limited, seen, terms)
	count := metrics.Gradients{Asked: 1, Feedback: uint64(told), Computing: computing}
	var failed *engine.Error
	switch late := errors.As(err, &failed) && failed.Code == engine.CodeDeadline || errors.Is(err, context.DeadlineExceeded) || err == nil && time.Since(asked) > interval; {
	case late:
		count.Late = 1
	case err != nil && ctx.Err() == nil:
		count.Failed = 1
	}
	i.figure.CountGradient(count)
	if err != nil {
		i.log.Warn("there is no gradient", zap.Int("segment", int(segment)), zap.Error(err))
		return nil
	}
	return gradient
}

// runGradient has the gradient of a frame, in how many bytes it is told, and what of a device it took.
func (i *inference) runGradient(ctx context.Context, seen *jobs.Seen, terms jobs.Terms) (gradient *oneadapt.Map, told int, computing time.Duration, err error) {
	network, err := i.currentNetwork()
	if err == nil && !seen.Whole() {
		err = errors.New("the network has seen no frame of the segment")
	}
	if err != nil {
		return nil, 0, 0, err
	}
	gradient, spent, err := i.maker.Gradient(ctx, network, seen, terms, oneadapt.UsualUtility())
	i.figure.Spend(spent)
	if err != nil {
		return nil, 0, spent.Device, err
	}
	text, err := gradient.AppendBinary(nil)
	return gradient, len(text), spent.Device, err
}
