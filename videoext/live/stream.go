package live

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/videoext/jobs"
	"github.com/prefillonly/prefillonly/videoext/journal"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/metrics"
	"github.com/prefillonly/prefillonly/videoext/streams"
)

// stream is one that was declared: what is told of it, and the way to its actor.
type stream struct {
	spec Spec
	by   owner
	dir  string
	log  *zap.Logger

	journal   *journal.Journal
	figure    metrics.Figures
	condition condition
	part      part
	inference *inference
	guards    *guards // of the server
	intake    intake

	mail    chan mail
	stop    context.CancelCauseFunc
	stopped chan struct{} // closed when nothing of it runs any more
}

// intake is how the frames of a stream come: from a source that the server reads, or in sessions of a camera. The actor calls its methods.
type intake interface {
	// newServer makes the method's side that the core hosts.
	newServer() method.Server
	// inbox is what brings frames now, and when to ask again at the latest; nil: nothing is taken for now.
	inbox(ctx context.Context, a *actor) (<-chan mail, time.Duration)
	// perform does what the core asks of who brings the frames. Seen is the frame that the network saw last.
	perform(ctx context.Context, a *actor, action streams.Action, seen jobs.Seen)
	// finish is called when all frames have their results.
	finish()
	// end says that the stream is over, and why.
	end(why error)
}

// sendEvent has the actor do something, unless ctx or the stream ends before.
func (s *stream) sendEvent(ctx context.Context, m mail) bool {
	select {
	case s.mail <- m:
		return true
	case <-ctx.Done():
	case <-s.stopped:
	}
	return false
}
