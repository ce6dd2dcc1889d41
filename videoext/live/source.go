package live

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/videoext/jobs"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/metrics"
	"github.com/prefillonly/prefillonly/videoext/source"
	"github.com/prefillonly/prefillonly/videoext/streams"
)

// sourceIntake brings the frames of a source that the server reads itself: each is a segment.
type sourceIntake struct {
	*stream
	admit  func(ctx context.Context, d demand) error // says what the source brings; an error refuses it
	held   *memoryHold                               // what reading it takes
	drops  bool                                      // frames that find too many waiting are dropped, and not waited for
	frames chan mail

	broke time.Time // when a discontinuity was logged; owned by read
	size  int64     // bytes of the last frame; owned by the actor
}

func newSourceIntake(st *stream, held *memoryHold, admit func(ctx context.Context, d demand) error) *sourceIntake {
	return &sourceIntake{stream: st, admit: admit, held: held, frames: make(chan mail), drops: st.spec.isRemote() || st.spec.Deadline > 0}
}

// player brings the frames of a source until ctx ends or, without an error, the source does.
type player func(ctx context.Context, to source.Stream) error

// readSource brings the frames that play does.
func (i *sourceIntake) readSource(ctx context.Context, play player) {
	switch err := play(ctx, i); {
	case ctx.Err() != nil:
	case err != nil:
		i.held.End()
		i.log.Error("the source cannot be read", zap.Error(err))
		i.condition.setState(stateFailed, err.Error())
	default:
		i.bringFrame(ctx, func(ctx context.Context, a *actor) { _ = a.stepCore(ctx, streams.Ended{}) }) // it always makes sense
	}
}

// bringFrame waits until the actor takes what comes.
func (i *sourceIntake) bringFrame(ctx context.Context, m mail) {
	select {
	case i.frames <- m:
	case <-ctx.Done():
	}
}

// Opened takes the memory that the source says it takes, and keeps it while the source is away.
func (i *sourceIntake) Opened(info ffmpeg.Info) error { return i.held.Set(sourceMemory(&info)) }

// Admit implements source.Stream.
func (i *sourceIntake) Admit(ctx context.Context, rate float64, width, height int) error {
	return i.admit(ctx, demand{rate, width, height, i.held.Size()}.atMost(i.spec.Rate))
}

// Running implements source.Stream.
func (i *sourceIntake) Running() { i.condition.setState(stateRunning, "") }

// Waiting implements source.Stream.
func (i *sourceIntake) Waiting(why error, delay time.Duration) {
	i.condition.setState(stateWaiting, fmt.Sprintf("%v; it is opened again after %v", why, delay))
	i.log.Warn("the source is opened again", zap.Error(why), zap.Duration("delay", delay))
}

// Keyless implements source.Stream.
func (i *sourceIntake) Keyless() { i.condition.setState(stateWaiting, "waiting for a key frame") }

// Read implements source.Stream.
func (i *sourceIntake) Read(bytes int, decoding time.Duration) {
	i.figure.Spend(metrics.Spent{Decode: decoding})
	i.figure.Sent(method.A, bytes)
}

// Frame implements source.Stream.
func (i *sourceIntake) Frame(ctx context.Context, frame *media.Frame) {
	if frame.Broken && time.Since(i.broke) > time.Minute {
		i.broke = time.Now()
		i.log.Warn("the source's own time does not follow what it said before: the stream's goes on", zap.Duration("time", frame.Time))
	}
	i.bringFrame(ctx, func(ctx context.Context, a *actor) { i.takeFrame(ctx, a, frame) })
}

func (i *sourceIntake) newServer() method.Server { return i.spec.newPlain() }

func (i *sourceIntake) inbox(_ context.Context, a *actor) (<-chan mail, time.Duration) {
	if !i.drops && (i.isFull(a) || i.inference.isMissing()) {
		return nil, never
	}
	return i.frames, never
}

// isFull says that no more frames should come now. Large ones may not all wait that may wait of small ones.
func (i *sourceIntake) isFull(a *actor) bool {
	return a.core.Full() || !mayWait(a.core.Under()+1, i.size)
}

// takeFrame takes in a frame, or drops it.
func (i *sourceIntake) takeFrame(ctx context.Context, a *actor, frame *media.Frame) {
	i.size = int64(len(frame.Y) + len(frame.Cb) + len(frame.Cr))
	next := a.core.Told()
	if i.isFull(a) {
		_ = a.stepCore(ctx, streams.Missed{Segment: next, Of: 1, Time: frame.Time, Broken: frame.Broken, Why: fmt.Sprintf("%d frames wait for the network", a.core.Under())})
		return
	}
	f := &footage{numbers: []int{0}, load: func(context.Context) ([]*media.Frame, error) { return []*media.Frame{frame}, nil }}
	_ = a.takeFootage(ctx, streams.Came{Segment: next, Frames: []int{0}, Times: []time.Duration{frame.Time}, Of: 1, Broken: frame.Broken}, f) // the next one always makes sense
}

// perform implements intake: nobody is told of a source's frames.
func (i *sourceIntake) perform(context.Context, *actor, streams.Action, jobs.Seen) {}

// finish implements intake: what has ended stays so.
func (i *sourceIntake) finish() {
	i.held.End()
	i.journal.Close()
	if err := os.WriteFile(filepath.Join(i.dir, endedFile), nil, 0o600); err != nil {
		i.log.Error("a stream would begin again", zap.Error(err))
	}
}

func (i *sourceIntake) end(error) { i.held.End() }

// endedFile marks streams that have ended.
const endedFile = "ended"
