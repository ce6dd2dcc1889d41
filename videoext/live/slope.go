package live

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/videoext/jobs"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/metrics"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/streams"
)

// slopePatience is how long a gradient may take: what comes later is of another scene.
const slopePatience = 2 * time.Second

// slope asks for a gradient.
func (s *stream) slope(ctx context.Context, a streams.Slope) {
	sent, arrived := s.footage[track{a.Segment, method.A}], time.Now()
	s.group.Go(func() { // ends with ctx, or before
		answer := streams.Sloped{Differentiated: method.Differentiated{Segment: a.Segment}}
		limited, stop := context.WithTimeout(ctx, slopePatience)
		defer stop()
		network, err := s.sees()
		var frames []*media.Frame
		if err == nil {
			frames, err = sent.pick(limited, []int{a.Frame})
		}
		if err == nil {
			var spent metrics.Spent
			answer.Gradient, spent, err = s.maker.Slope(limited, network, frames[0], jobs.Look{Arrived: arrived, User: "video/" + s.spec.Name}, oneadapt.UsualUtility())
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
