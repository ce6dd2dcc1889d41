package method

import (
	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
)

// ServerEvent is what a server's side is told. It ignores what is about segments that it does not know or has finished.
type ServerEvent interface{ serverEvent() }

// ServerAction is what a server's side asks for.
type ServerAction interface{ serverAction() }

// Arrived says that frames of a segment are here, until its final Results. On stream A the server's side is told of every segment, in order:
// by Arrived, or else by Skip or Failed, which the shell makes up for those that are lost.
type Arrived struct {
	Segment Segment
	Stream  Stream
	Frames  []int // increasing, at least one
	Of      int   // frames of the segment
}

// Inferred answers Infer.
type Inferred struct {
	Segment  Segment
	Stream   Stream
	Frames   []int
	Findings []videoext.Findings // of each of Frames
}

// GradientComputed answers ComputeGradient.
type GradientComputed struct {
	Segment  Segment
	Gradient *oneadapt.Map // nil: nothing came of it
}

// Failed says that what was sent cannot be used, or that Infer came to nothing.
type Failed struct {
	Segment Segment
	Stream  Stream
	Of      int // frames of the segment
}

// Ended says that nothing more will arrive.
type Ended struct{}

func (Arrived) serverEvent()          {}
func (Skip) serverEvent()             {}
func (Inferred) serverEvent()         {}
func (GradientComputed) serverEvent() {}
func (Failed) serverEvent()           {}
func (Woke) serverEvent()             {}
func (Ended) serverEvent()            {}

// Infer asks what the network finds in frames that arrived on a stream.
type Infer struct {
	Segment Segment
	Stream  Stream
	Frames  []int
	How     How
}

// ComputeGradient asks how the utility of what the network finds in a frame changes with the frame's macroblocks. The frame has arrived on stream A.
type ComputeGradient struct {
	Segment Segment
	Frame   int
}

// How is what is done to frames before the network sees them.
type How interface{ how() }

// Plain leaves frames as they are.
type Plain struct{}

// Pasted puts regions of each frame onto the same frame of stream A, which is enlarged to the size of stream B.
type Pasted struct{ Regions [][]videoext.Region }

// SuperResolved makes frames larger by a network for that.
type SuperResolved struct{ Factor int }

func (Plain) how()         {}
func (Pasted) how()        {}
func (SuperResolved) how() {}

// Answer tells the camera's side something about a segment. It can be lost, when the link is.
type Answer struct {
	Segment Segment
	Content Content
}

// Content is what an Answer says.
type Content interface{ content() }

// Wanted are regions that are wanted in better quality: those of each frame of the segment. None: all is well.
type Wanted struct{ Regions [][]videoext.Region }

// Seen is what was found in frames.
type Seen struct {
	Frames     []int
	Detections [][]videoext.Detection
}

// Sensitive says where the network looks.
type Sensitive struct{ Gradient *oneadapt.Map }

func (Wanted) content()    {}
func (Seen) content()      {}
func (Sensitive) content() {}

// Results are what was found in each frame of a segment. Each segment that was captured gets one that is final, on one of
// the sides; before, there may be others.
type Results struct {
	Segment Segment
	Frames  []videoext.Findings // of all frames of the segment, without proposals
	Final   bool
}

func (Infer) serverAction()           {}
func (ComputeGradient) serverAction() {}
func (Answer) serverAction()          {}
func (Results) serverAction()         {}
func (Wake) serverAction()            {}
