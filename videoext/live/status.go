package live

import (
	"fmt"
	"sync"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/metrics"
)

// The states of a stream.
const (
	stateWaiting = "waiting" // for its camera or its source
	stateRunning = "running"
	stateEnded   = "ended"
	stateFailed  = "failed"
)

// condition is how a stream is. Its methods are safe for concurrent use.
type condition struct {
	mu     sync.Mutex
	state  string // guarded by mu
	reason string // guarded by mu
	unseen string // guarded by mu; why the network did not see the last frame; empty: it did
}

// setState is of a stream that is so from now on.
func (c *condition) setState(state, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state, c.reason = state, reason
}

// loseCamera is of a stream whose camera's session has ended.
func (c *condition) loseCamera(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == stateRunning {
		c.state, c.reason = stateWaiting, why
	}
}

// refuseCamera says of a stream without a session that a camera was refused.
func (c *condition) refuseCamera(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == stateWaiting {
		c.reason = "its camera is refused: " + why.Error()
	}
}

// setUnseen says why the network did not see the last frame.
func (c *condition) setUnseen(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unseen = why
}

// isOver says that no more frames are taken.
func (c *condition) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state == stateEnded || c.state == stateFailed
}

// describeCondition is the state and its reason as they are told, of a stream whose network may be missing.
func (c *condition) describeCondition(missing error) (state, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case missing != nil && (c.state == stateRunning || c.state == stateWaiting):
		return stateWaiting, missing.Error()
	case c.state == stateRunning && c.reason == "" && c.unseen != "":
		return c.state, fmt.Sprintf("the network did not see the last frame: %s", c.unseen)
	}
	return c.state, c.reason
}

// status is a stream as it is told of.
type status struct {
	Object string `json:"object"`
	Spec
	State  string  `json:"state"`
	Reason string  `json:"reason,omitempty"`
	Load   float64 `json:"load"` // devices that it is expected to take, as far as the pool has told what a frame takes
	given
	traffic
	Spent spent `json:"spent"`

	Gradients *gradients `json:"gradients,omitempty"` // none was asked for: nil
}

// given are the results.
type given struct {
	Number  uint64  `json:"number"`  // of the last one
	Frames  uint64  `json:"frames"`  // with final results, since the process began
	Late    uint64  `json:"late"`    // of them, after the deadline
	Dropped uint64  `json:"dropped"` // of them, that the network did not see
	Latency float64 `json:"latency_ms"`
	// Discontinuities are where what the source says of time does not follow what it said before.
	Discontinuities uint64 `json:"discontinuities"`
}

// traffic is the video that came, and what was found in it.
type traffic struct {
	BytesA    uint64  `json:"bytes_a"`
	BytesB    uint64  `json:"bytes_b"`
	Regions   uint64  `json:"regions"`
	Boxes     float64 `json:"boxes_a_frame"`
	MeanScore float64 `json:"mean_score"`
}

// gradients are those of the network, for the knobs of the camera.
type gradients struct {
	Asked    uint64  `json:"asked"`
	Late     uint64  `json:"late"`
	Failed   uint64  `json:"failed"`
	Feedback uint64  `json:"feedback_bytes"`
	Device   float64 `json:"device_s"`
}

// spent is where the time went, in seconds.
type spent struct {
	Decode float64 `json:"decode_s"` // of a processor, as are scale and read
	Scale  float64 `json:"scale_s"`
	Read   float64 `json:"read_s"`
	Turn   float64 `json:"turn_s"` // waiting for a processor
	Queue  float64 `json:"queue_s"`
	Device float64 `json:"device_s"`
}

func secondsOf(s metrics.Spent) spent {
	return spent{s.Decode.Seconds(), s.Scale.Seconds(), s.Read.Seconds(), s.Turn.Seconds(), s.Queue.Seconds(), s.Device.Seconds()}
}

func (s *stream) describeStatus() status {
	f := s.figure.Now()
	out := status{
		Object: "video.stream", Spec: s.spec, Spent: secondsOf(f.Spent),
		given:   given{s.journal.Newest(), f.Frames, f.Late, f.Dropped, f.MeanLatency(), f.Discontinuities},
		traffic: traffic{f.Bytes[method.A], f.Bytes[method.B], f.Regions, f.BoxesPerFrame(), f.MeanScore()},
	}
	if g := f.Gradients; g.Asked > 0 {
		out.Gradients = &gradients{g.Asked, g.Late, g.Failed, g.Feedback, g.Computing.Seconds()}
	}
	out.Source, out.Load = ffmpeg.ShowAddress(s.spec.Source), s.load()
	_, missing := s.inference.currentNetwork()
	out.State, out.Reason = s.condition.describeCondition(missing)
	return out
}

// logStatus writes the line of a stream to the log.
func (s *stream) logStatus(what string) {
	f := s.figure.Now()
	s.log.Info(what, zap.String("state", s.describeStatus().State), zap.Uint64("frames", f.Frames), zap.Uint64("late", f.Late), zap.Uint64("dropped", f.Dropped), zap.Uint64("discontinuities", f.Discontinuities),
		zap.Float64("latency_ms", f.MeanLatency()), zap.Uint64("bytes_a", f.Bytes[method.A]), zap.Uint64("bytes_b", f.Bytes[method.B]), zap.Uint64("regions", f.Regions),
		zap.Float64("boxes_a_frame", f.BoxesPerFrame()), zap.Float64("score", f.MeanScore()))
}
