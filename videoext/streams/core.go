// Package streams is the server's side of one live stream, as a pure core: it hosts a method's server side, says what the network is to
// look at, and gives every frame one final result, numbered and in order, whatever comes twice or not at all.
package streams

import (
	"fmt"
	"math"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/method"
)

// Config says what a stream is.
type Config struct {
	New      func() method.Server
	Rate     float64        // frames a second, for the times of those that do not come
	Deadline time.Duration  // from a segment's coming to its final results, beyond which they are late; 0: none
	Patience time.Duration  // after which a segment is given up; 0: DefaultPatience
	Most     int            // segments under way, beyond which the oldest waits for the camera no more; 0: DefaultMost
	Next     method.Segment // the first that has no final results
	Number   uint64         // of the last result
	Time     time.Duration  // of its frame; negative: there was none
}

// What a Config leaves out.
const (
	DefaultPatience = 60 * time.Second
	DefaultMost     = 16
)

// LeftOut is why the network does not see what the camera does not send.
const LeftOut = "the camera left it out"

// maxGap is how many frames may be missing in a row, as the segment behind them counts those of each: as many as have their results kept.
const maxGap = 1 << 12

// Counts are of frames with final results.
type Counts struct {
	Frames, Late uint64
	Dropped      uint64  // of them, that the network did not see
	Things       uint64  // detections in them
	Score        float64 // sum of these
	Regions      uint64
	// Discontinuities are where the times that a source says do not follow those before.
	Discontinuities uint64
}

// Core is one stream. One goroutine uses it.
type Core struct {
	c          Config
	server     method.Server
	under      []*segment // way, in order; the last is the one before told
	told       method.Segment
	inferences map[int]method.Infer
	lastID     int
	clock      media.Clock   // of frames
	wake       time.Duration // that the method asked for; math.MaxInt64: none
	asked      time.Duration // by the last Wake
	ended      bool
	over       bool // Ended was told to the method
	counts     Counts
	do         []Action
}

// segment is one under way.
type segment struct {
	number  method.Segment
	came    time.Duration
	times   []time.Duration
	breaks  []int // frames before which there is a discontinuity
	high    bool  // stream B has come, or will not
	regions [][]videoext.Region
	answer  *method.Answer
	why     []string // of each frame
	final   []videoext.Findings
}

// New makes a stream.
func New(c Config) *Core {
	if c.Patience == 0 {
		c.Patience = DefaultPatience
	}
	if c.Most == 0 {
		c.Most = DefaultMost
	}
	if !(c.Rate > 0) {
		c.Rate = 25
	}
	core := &Core{c: c, server: c.New(), told: c.Next, inferences: map[int]method.Infer{}, wake: math.MaxInt64, asked: math.MaxInt64}
	core.clock.Step = time.Duration(float64(time.Second) / c.Rate)
	if c.Next > 0 && c.Time >= 0 {
		core.clock.Resume(c.Time, clockTime(0))
	}
	return core
}

// clockTime is a time of Step as a Clock wants it.
func clockTime(now time.Duration) time.Time { return time.Time{}.Add(now) }

// Full says that no more segments should come now: as many as may be are under way, and the network is yet to say what is in some. Where all of them wait for
// the camera more are taken, as what they wait for may be behind these.
func (c *Core) Full() bool { return len(c.under) >= c.c.Most && len(c.inferences) > 0 }

// Told is the first segment that has not come.
func (c *Core) Told() method.Segment { return c.told }

// Under is how many segments are under way.
func (c *Core) Under() int { return len(c.under) }

// Counts are what was counted so far.
func (c *Core) Counts() Counts { return c.counts }

// Step takes what happened, and when, by a clock that never goes back. An error says that what came makes no sense; nothing was done then.
func (c *Core) Step(now time.Duration, event Event) ([]Action, error) {
	c.do = nil
	var err error
	switch e := event.(type) {
	case Begun:
		c.welcomeSession()
	case Came:
		err = c.handleCame(now, e)
	case Missed:
		err = c.handleMissed(now, e)
	case Given:
		err = c.handleGiven(now, e.Results)
	case Inferred:
		c.handleInferred(now, e)
	case GradientComputed:
		c.stepMethod(now, e.GradientComputed)
	case Ended:
		c.ended = true
	case Tick:
		c.asked = math.MaxInt64
	}
	if err != nil {
		return nil, err
	}
	c.expireSegments(now)
	c.deliverFinal(now)
	c.requestWake()
	return c.do, nil
}

func (c *Core) addAction(a Action) { c.do = append(c.do, a) }

// welcomeSession tells a camera's new session how things are.
func (c *Core) welcomeSession() {
	if c.over {
		c.server, c.over = c.c.New(), false
	}
	c.ended = false
	c.addAction(Welcome{c.told})
	if first := c.firstPending(); first > 0 {
		c.addAction(Done{first - 1})
	}
	for _, s := range c.under {
		if s.answer != nil && s.final == nil {
			c.addAction(Tell{*s.answer})
		}
	}
}

// firstPending is the first segment without final results.
func (c *Core) firstPending() method.Segment { return c.told - method.Segment(len(c.under)) }

// findSegment is a segment under way; nil if it is not.
func (c *Core) findSegment(n method.Segment) *segment {
	if n < c.firstPending() || n >= c.told {
		return nil
	}
	return c.under[n-c.firstPending()]
}

// openSegments takes in the next segment, and those before it that did not come.
func (c *Core) openSegments(now time.Duration, n method.Segment, of int) error {
	if frames := int64(n-c.told) * int64(of); frames > maxGap {
		return fmt.Errorf("segment %d of %d frames comes where %d is next, which is too far: %d frames would be missing, want at most %d", n, of, c.told, frames, maxGap)
	}
	for c.told < n {
		s := c.pushSegment(now, of, Came{})
		s.setReasonForAll("it did not come")
		c.stepMethod(now, method.Failed{Segment: s.number, Stream: method.A, Of: of})
	}
	return nil
}

// pushSegment makes a segment the last one under way. Times of frames that did not come are guessed.
func (c *Core) pushSegment(now time.Duration, of int, e Came) *segment {
	s := &segment{number: c.told, came: now, times: make([]time.Duration, of), why: make([]string, of)}
	for i := range s.times {
		if len(e.Frames) == 0 || e.Frames[0] != i {
			s.times[i] = c.clock.Untimed(clockTime(now))
			continue
		}
		at, broken := c.clock.Time(e.Times[0], clockTime(now))
		if broken || e.Broken {
			s.breaks, e.Broken = append(s.breaks, i), false
		}
		s.times[i], e.Frames, e.Times = at, e.Frames[1:], e.Times[1:]
	}
	c.counts.Discontinuities += uint64(len(s.breaks))
	c.under, c.told = append(c.under, s), c.told+1
	return s
}

// setReasonForAll says of all frames why the network does not see them.
func (s *segment) setReasonForAll(why string) {
	for i := range s.why {
		s.why[i] = why
	}
}

func (c *Core) handleCame(now time.Duration, e Came) error {
	if e.Of < 1 || len(e.Frames) != len(e.Times) {
		return fmt.Errorf("segment %d has %d frames, and times of %d of %d", e.Segment, e.Of, len(e.Times), len(e.Frames))
	}
	if e.Stream == method.B {
		return c.cameHigh(now, e)
	}
	if e.Segment < c.told {
		c.answerRepeat(e.Segment)
		return nil
	}
	if err := c.openSegments(now, e.Segment, e.Of); err != nil {
		return err
	}
	s := c.pushSegment(now, e.Of, e)
	sent := map[int]bool{}
	for _, frame := range e.Frames {
		sent[frame] = true
	}
	for frame := range s.why {
		if !sent[frame] {
			s.why[frame] = LeftOut
		}
	}
	c.stepMethod(now, method.Arrived{Segment: e.Segment, Stream: method.A, Frames: e.Frames, Of: e.Of})
	return nil
}

// answerRepeat answers what comes a second time.
func (c *Core) answerRepeat(n method.Segment) {
	if n < c.firstPending() {
		c.addAction(Done{n})
	}
}

func (c *Core) cameHigh(now time.Duration, e Came) error {
	s := c.findSegment(e.Segment)
	switch {
	case s == nil && e.Segment >= c.told:
		return fmt.Errorf("stream B of segment %d comes before its stream A", e.Segment)
	case s == nil:
		c.answerRepeat(e.Segment)
	case e.Of != len(s.times):
		return fmt.Errorf("segment %d has %d frames on stream A, and is of %d on stream B", e.Segment, len(s.times), e.Of)
	case !s.high:
		s.high = true
		c.stepMethod(now, method.Arrived{Segment: e.Segment, Stream: method.B, Frames: e.Frames, Of: e.Of})
	}
	return nil
}

func (c *Core) handleMissed(now time.Duration, e Missed) error {
	if e.Of < 1 {
		return fmt.Errorf("segment %d has %d frames", e.Segment, e.Of)
	}
	s := c.findSegment(e.Segment)
	var event method.ServerEvent = method.Failed{Segment: e.Segment, Stream: e.Stream, Of: e.Of}
	if e.Why == "" {
		event = method.Skip{Segment: e.Segment, Stream: e.Stream, Of: e.Of}
	}
	switch {
	case e.Stream == method.B:
		if s != nil && !s.high && e.Of == len(s.times) {
			s.high = true
			c.stepMethod(now, event)
		}
		return nil
	case e.Segment < c.told:
		c.answerRepeat(e.Segment)
		return nil
	}
	if err := c.openSegments(now, e.Segment, e.Of); err != nil {
		return err
	}
	known := Came{Broken: e.Broken}
	if e.Time > 0 {
		known.Frames, known.Times = []int{0}, []time.Duration{e.Time}
	}
	s = c.pushSegment(now, e.Of, known)
	if s.setReasonForAll(e.Why); e.Why == "" {
		s.setReasonForAll(LeftOut)
	}
	c.stepMethod(now, event)
	return nil
}

// handleGiven takes in what the camera has found.
func (c *Core) handleGiven(now time.Duration, r method.Results) error {
	s := c.findSegment(r.Segment)
	switch {
	case s == nil && r.Segment >= c.told:
		return fmt.Errorf("results of segment %d come before it", r.Segment)
	case s == nil:
		c.answerRepeat(r.Segment)
		return nil
	case len(r.Frames) != len(s.times):
		return fmt.Errorf("segment %d has %d frames, and results of %d", r.Segment, len(s.times), len(r.Frames))
	}
	if r.Final && s.final == nil {
		s.setReasonForAll("")
	}
	c.handleResults(now, r)
	return nil
}

// stepMethod tells the method's server side, and does what it asks for.
func (c *Core) stepMethod(now time.Duration, event method.ServerEvent) {
	for _, action := range c.server.Step(now, event) {
		switch a := action.(type) {
		case method.Infer:
			c.lastID++
			c.inferences[c.lastID] = a
			c.addAction(Infer{c.lastID, a})
		case method.ComputeGradient:
			c.addAction(ComputeGradient{a})
		case method.Answer:
			c.handleAnswer(a)
		case method.Results:
			c.handleResults(now, a)
		case method.Wake:
			c.wake = a.At
		}
	}
}

func (c *Core) handleAnswer(a method.Answer) {
	if s := c.findSegment(a.Segment); s != nil {
		s.answer = &a
		if w, ok := a.Content.(method.Wanted); ok && len(w.Regions) == len(s.times) {
			s.regions = w.Regions
		}
	}
	c.addAction(Tell{a})
}

// handleLooked tells the method what the network found. On stream A a frame that the network did not see has what is in the one before it.
func (c *Core) handleInferred(now time.Duration, e Inferred) {
	in, ok := c.inferences[e.ID]
	if !ok || len(e.Findings) != len(in.Frames) || len(e.Why) != len(in.Frames) {
		return
	}
	delete(c.inferences, e.ID)
	s := c.findSegment(in.Segment)
	if s == nil {
		c.stepMethod(now, method.Failed{Segment: in.Segment, Stream: in.Stream, Of: 1}) // the method forgets it
		return
	}
	seen := -1
	out := method.Inferred{Segment: in.Segment, Stream: in.Stream}
	for i, why := range e.Why {
		if why == "" && seen < 0 {
			seen = i
		}
	}
	if seen < 0 {
		if in.Stream == method.A {
			s.setReasons(in.Frames, e.Why)
		}
		c.stepMethod(now, method.Failed{Segment: in.Segment, Stream: in.Stream, Of: len(s.times)})
		return
	}
	for i, frame := range in.Frames {
		if e.Why[i] == "" {
			seen = i
		} else if in.Stream == method.B {
			continue
		}
		out.Frames, out.Findings = append(out.Frames, frame), append(out.Findings, e.Findings[seen])
	}
	if in.Stream == method.A {
		s.setReasons(in.Frames, e.Why)
	}
	c.stepMethod(now, out)
}

func (s *segment) setReasons(frames []int, why []string) {
	for i, frame := range frames {
		s.why[frame] = why[i]
	}
}

// requestWake asks to be woken when the time is another one than before.
func (c *Core) requestWake() {
	at := c.wake
	if len(c.under) > 0 {
		at = min(at, c.under[0].came+c.c.Patience)
	}
	if at < c.asked {
		c.asked = at
		c.addAction(Wake{at})
	}
}
