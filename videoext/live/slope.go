package live

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/videoext/jobs"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/metrics"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/streams"
)

// sight is what the network said of frames, and of the last of them whole.
type sight struct {
	streams.Looked
	jobs.Seen
}

// slopePatience is how long a gradient may take: what comes later is of another scene.
const slopePatience = 2 * time.Second

// slope asks for the gradient of the frame that was seen last: it is asked for when that is told.
func (s *stream) slope(ctx context.Context, a streams.Slope) {
	seen, arrived := s.sight.Seen, time.Now()
	s.group.Go(func() { // ends with ctx, or before
		answer := streams.Sloped{Differentiated: method.Differentiated{Segment: a.Segment}}
		limited, stop := context.WithTimeout(ctx, slopePatience)
		defer stop()
		network, err := s.sees()
		if err == nil && !seen.Whole() {
			err = errors.New("the network has not seen its last frame")
		}
		if err == nil {
			var spent metrics.Spent
			answer.Gradient, spent, err = s.maker.Slope(limited, network, &seen, jobs.Look{Arrived: arrived, User: "video/" + s.spec.Name}, oneadapt.UsualUtility())
			s.figure.Spend(spent)
		}
		if err != nil {
			s.log.Warn("there is no gradient", zap.Int("segment", int(a.Segment)), zap.Error(err))
		}
		select {
		case s.sloped <- answer:
		case <-ctx.Done():
		}
	})
}
