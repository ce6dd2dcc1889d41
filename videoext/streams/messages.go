package streams

import (
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/method"
)

// Event is what happens to a stream.
type Event interface{ isEvent() }

// Begun says that a camera's session begins. It is answered by Welcome, and then by what an earlier session may not have been told.
type Begun struct{}

// Came says that frames of a segment are here. What came before is ignored.
type Came struct {
	Segment method.Segment
	Stream  method.Stream
	Frames  []int           // increasing, at least one
	Times   []time.Duration // of Frames, in their source
	Of      int             // frames of the segment
	Broken  bool            // there is a discontinuity of the source before them, which Times do not show
}

// Missed says that a segment, or a stream of it, does not come or cannot be used.
type Missed struct {
	Segment method.Segment
	Stream  method.Stream
	Of      int
	Why     string        // empty: the camera has left it out
	Time    time.Duration // of its first frame; 0: not known
	Broken  bool          // as Came's
}

// Given are results that the camera has itself.
type Given struct{ method.Results }

// Inferred answers Infer. Findings and Why are of each of its frames; one that the network did not see has a Why.
type Inferred struct {
	ID       int
	Findings []videoext.Findings
	Why      []string
}

// GradientComputed answers ComputeGradient. Without a gradient nothing came of it.
type GradientComputed struct{ method.GradientComputed }

// Ended says that nothing more will come, until Begun.
type Ended struct{}

// Tick says that the time of Wake has come.
type Tick struct{}

func (Begun) isEvent()            {}
func (Came) isEvent()             {}
func (Missed) isEvent()           {}
func (Given) isEvent()            {}
func (Inferred) isEvent()         {}
func (GradientComputed) isEvent() {}
func (Ended) isEvent()            {}
func (Tick) isEvent()             {}

// Action is what a stream asks for.
type Action interface{ isAction() }

// Welcome begins a session: the first segment that is wanted.
type Welcome struct{ Next method.Segment }

// Infer asks what the network finds in frames. It is always answered.
type Infer struct {
	ID int
	method.Infer
}

// ComputeGradient asks how what the network finds in a frame of stream A changes with the frame. It is always answered.
type ComputeGradient struct{ method.ComputeGradient }

// Tell is an answer for the camera.
type Tell struct{ method.Answer }

// Done tells the camera that a segment has its final results.
type Done struct{ Segment method.Segment }

// Deliver are results for whoever listens: of all frames of a segment.
type Deliver struct{ Results []Result }

// Free says that a segment's frames are needed no more.
type Free struct{ Segment method.Segment }

// Wake asks for Tick at a time, of which a later Wake takes the place.
type Wake struct{ At time.Duration }

// Finished says that all that came before Ended has its final results.
type Finished struct{}

func (Welcome) isAction()         {}
func (Infer) isAction()           {}
func (ComputeGradient) isAction() {}
func (Tell) isAction()            {}
func (Done) isAction()            {}
func (Deliver) isAction()         {}
func (Free) isAction()            {}
func (Wake) isAction()            {}
func (Finished) isAction()        {}

// Result is what was found in one frame. Each frame has one that is final.
type Result struct {
	Number  uint64 // of the stream's results, from 1
	Segment method.Segment
	Frame   int // of the segment
	Of      int // frames of the segment
	Final   bool
	Time    time.Duration // in the source, by a clock that only goes on
	// Discontinuity says that what the source says of time does not follow the frame before.
	Discontinuity bool
	Findings      videoext.Findings
	Regions       []videoext.Region // that the camera was asked for
	Latency       time.Duration     // since the segment came
	Late          bool              // it is more than the deadline
	// Why the network did not see the frame; its findings are then those of another one, or none. Empty: it did.
	Why string
}
