package methods

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/method"
)

// AWStream streams in the most accurate of some configurations that the link can carry, which were profiled beforehand (Zhang and others,
// "AWStream: Adaptive Wide-Area Streaming Analytics", SIGCOMM 2018, sections 4 and 5).
type AWStream struct {
	Common
	Profile []OperatingPoint
	// Budget is the bandwidth in bytes a second for which one configuration is chosen; 0: they follow the link.
	Budget float64
	// Share is the part of the link's bandwidth that is used after congestion; Congested how long what waits takes when the link is.
	Share     float64
	Congested time.Duration
}

// OperatingPoint is one configuration, and what it takes and gives.
type OperatingPoint struct {
	videoext.Quality
	Skip     int     // frames that are left out after each one
	Rate     float64 // bytes a second
	Accuracy float64
}

// Constants of the published code (github.com/awstream/awstream).
const (
	startupCongestEnough = 3
	steadyEnough         = 3
)

// DefaultAWStream follows the link.
func DefaultAWStream(profile []OperatingPoint) AWStream {
	return AWStream{Common: UsualCommon(), Profile: profile, Share: 0.8, Congested: 500 * time.Millisecond}
}

// Pareto are the configurations that none is better than, in both: in order of rate and of accuracy.
func Pareto(all []OperatingPoint) (front []OperatingPoint) {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b OperatingPoint) int {
		return cmp.Or(cmp.Compare(a.Rate, b.Rate), cmp.Compare(b.Accuracy, a.Accuracy))
	})
	for _, o := range all {
		if len(front) == 0 || o.Accuracy > front[len(front)-1].Accuracy {
			front = append(front, o)
		}
	}
	return front
}

// lastWithinRate is the last of a front within a rate; the first if none is.
func lastWithinRate(front []OperatingPoint, rate float64) int {
	i, _ := slices.BinarySearchFunc(front, rate, func(o OperatingPoint, rate float64) int {
		if o.Rate <= rate {
			return -1
		}
		return 1
	})
	return max(i-1, 0)
}

// Check says what is wrong with a configuration.
func (c *AWStream) Check() error {
	if err := c.Common.check("awstream"); err != nil {
		return err
	}
	for _, o := range c.Profile {
		if err := o.Check(); err != nil {
			return err
		}
		if o.Skip < 0 || !(o.Rate > 0) {
			return fmt.Errorf("awstream: a configuration that leaves out %d frames and takes %g bytes a second", o.Skip, o.Rate)
		}
	}
	switch {
	case len(c.Profile) == 0:
		return fmt.Errorf("awstream: a profile of no configurations; give one as its setting, as `prefillonly video eval` writes it")
	case !(c.Budget >= 0):
		return fmt.Errorf("awstream: a budget of %g bytes a second", c.Budget)
	case c.Budget == 0 && (!(c.Share > 0 && c.Share <= 1) || c.Congested <= 0):
		return fmt.Errorf("awstream: a share of %g of the link is to be above 0 and at most 1, and %v of congestion above 0", c.Share, c.Congested)
	}
	return nil
}

// New is AWStream as a method. The configuration has been checked.
func (c AWStream) New() method.Method {
	c.Profile = Pareto(c.Profile)
	setting := "adaptive"
	if c.Budget > 0 {
		setting = c.Profile[lastWithinRate(c.Profile, c.Budget)].String()
	}
	return method.Method{Name: "awstream", Setting: setting, Frames: c.Frames, New: func() (method.Camera, method.Server) {
		return &awstreamCamera{c: c, up: uplink{longest: c.MaxBacklog}}, &method.OneStream{How: method.Plain{}, Classes: c.Classes}
	}}
}

func (o OperatingPoint) String() string {
	return fmt.Sprintf("%v, 1 of %d", o.Quality, o.Skip+1)
}

// phase is a state of the rate adaptation (figure 8 of the paper).
type phase uint8

const (
	startup phase = iota // the rate rises with every segment that got through
	degrade              // it is at what the link carries, until the queue is empty
	steady               // it stays
	probe                // it is a step higher, to see whether that gets through
)

type awstreamCamera struct {
	c     AWStream
	up    uplink
	phase phase
	count int // signals of a kind in a row
	level int // of c.Profile
}

// Step implements method.Camera.
func (a *awstreamCamera) Step(_ time.Duration, event method.CameraEvent) []method.CameraAction {
	switch e := event.(type) {
	case method.Captured:
		if a.c.Budget > 0 {
			a.level = lastWithinRate(a.c.Profile, a.c.Budget)
		} else {
			a.adaptToLink()
		}
		o := a.c.Profile[a.level]
		return a.up.sendFrames(e, sampledFrames(e.Frames, o.Skip), a.c.settingsOf(o.Quality, e))
	case method.Link:
		a.up.Link = e
	}
	return nil
}

// sampledFrames are the frames of a segment that are not left out.
func sampledFrames(n, skip int) (frames []int) {
	for i := 0; i < n; i += skip + 1 {
		frames = append(frames, i)
	}
	return frames
}

// adaptToLink moves on by how the link is when a segment is captured. Where the paper probes with bytes of no use, whose pace rises, a probe here
// is segments of the next configuration.
func (a *awstreamCamera) adaptToLink() {
	empty := a.up.Backlog == 0
	congested := float64(a.up.Backlog) > a.up.Bandwidth*a.c.Congested.Seconds() && !empty
	switch {
	case congested && a.phase == startup:
		if a.count++; a.count >= startupCongestEnough {
			a.lowerRate()
		}
	case congested:
		a.lowerRate()
	case !empty:
		a.count = 0
	case a.phase == startup:
		a.count = 0
		a.raiseRate(startup)
	case a.phase == degrade:
		a.phase, a.count = steady, 0
	default:
		if a.count++; a.count >= steadyEnough {
			a.advancePhase()
		}
	}
}

// lowerRate goes to what the link carries, at least a step down.
func (a *awstreamCamera) lowerRate() {
	a.level = min(lastWithinRate(a.c.Profile, a.up.Bandwidth*a.c.Share), max(a.level-1, 0))
	a.phase, a.count = degrade, 0
}

// raiseRate goes a step up; at the top it stays steady.
func (a *awstreamCamera) raiseRate(next phase) {
	a.phase = next
	if a.level++; a.level >= len(a.c.Profile)-1 {
		a.level, a.phase = len(a.c.Profile)-1, steady
	}
}

// advancePhase goes from steady to a probe, and from a probe that got through to steady.
func (a *awstreamCamera) advancePhase() {
	a.count = 0
	if a.phase == probe {
		a.phase = steady
		return
	}
	a.raiseRate(probe)
}
