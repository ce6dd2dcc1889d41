package method

import (
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
)

// CameraEvent is what a camera's side is told. It ignores what is about segments that it does not know or has released.
type CameraEvent interface{ cameraEvent() }

// CameraAction is what a camera's side asks for.
type CameraAction interface{ cameraAction() }

// Captured says that a segment's frames are there, until Release.
type Captured struct {
	Segment       Segment
	Frames        int // their number
	Width, Height int // in pixels
}

// Encoded answers Encode: what came out is on its way.
type Encoded struct {
	Segment   Segment
	Stream    Stream
	NAL       int // bytes of the codec's own units
	Container int // bytes with the container's
}

// Link tells, now and then, how the link to the server is.
type Link struct {
	Bandwidth float64 // estimated, in bytes a second; 0: unknown
	Backlog   int     // bytes that wait to be sent
}

// Jammed says whether what waits to be sent takes longer than that. A link that is said to carry nothing is jammed as soon as something waits.
func (l Link) Jammed(longest time.Duration) bool {
	return l.Backlog > 0 && float64(l.Backlog) > l.Bandwidth*longest.Seconds()
}

// Found answers Detect.
type Found struct {
	Segment  Segment
	Frames   []int
	Findings []videoext.Findings // of each of Frames
}

// Measured answers Measure.
type Measured struct {
	Segment Segment
	Values  []float64 // of each frame of the segment
}

// Tracked answers Track.
type Tracked struct {
	Segment    Segment
	Frames     []int
	Detections [][]videoext.Detection // in each of Frames
}

// Tried answers Try.
type Tried struct {
	Segment Segment
	Against Trial
	Trials  []Trial // of each of Variants; none: nothing came of it
}

// Trial is what a Variant is like.
type Trial struct {
	Bytes   int // of the container
	Changes []float64
}

// Woke answers Wake.
type Woke struct{}

func (Captured) cameraEvent() {}
func (Encoded) cameraEvent()  {}
func (Answer) cameraEvent()   {}
func (Link) cameraEvent()     {}
func (Found) cameraEvent()    {}
func (Measured) cameraEvent() {}
func (Tracked) cameraEvent()  {}
func (Tried) cameraEvent()    {}
func (Woke) cameraEvent()     {}

// Encode asks for frames of a segment to be encoded and sent. Of each stream of a segment there is either one Encode or one
// Skip, on stream A always. The server's side gets Arrived.
type Encode struct {
	Segment  Segment
	Stream   Stream
	Frames   []int          // increasing, at least one
	Settings media.Settings // a Rate of 0 is the stream's
	// Kept are the parts that are shown of each of Frames; the rest is black. None: frames are as they are.
	Kept [][]videoext.Region
}

// Skip says that nothing is sent on a stream of a segment. It is sent to the server's side.
type Skip struct {
	Segment Segment
	Stream  Stream
	Of      int // frames of the segment
}

// Detect asks for what a small network on the camera finds in frames.
type Detect struct {
	Segment Segment
	Frames  []int
}

// Measure asks how much each frame of a segment differs from another: Since, or if that is nil the one before it. The first
// frame of a stream differs by infinity.
type Measure struct {
	Segment Segment
	Feature Feature
	Since   *Frame // not released
}

// Frame is one frame of a segment.
type Frame struct {
	Segment Segment
	Frame   int
}

// Feature is a way to compare frames (Li and others, "Reducto", SIGCOMM 2020, section 4).
type Feature uint8

// Ways to compare frames.
const (
	Pixel Feature = iota // the part of pixels that differ by more than 21 of 255
	Area                 // the part of the frame that the largest connected area of such pixels has
	Edge                 // the part of pixels that are edges in one alone
)

// Track asks where the things in one frame are in later ones.
type Track struct {
	From       Frame
	Detections []videoext.Detection
	Segment    Segment // of Frames
	Frames     []int   // increasing
}

// Try asks how much what the network finds in a segment would change if it were encoded in other ways than Against, by a gradient (oneadapt.Changes). Frames are
// compared in the size that they were captured in.
type Try struct {
	Segment  Segment
	Gradient *oneadapt.Map
	Parts    bool // a change for each part of the gradient, and not their sum
	Against  Variant
	Variants []Variant
}

// Variant is a way to encode a segment on stream A.
type Variant struct {
	Frames   []int // that are sent, increasing, at least one; in place of others the network's findings in the one before stay
	Settings media.Settings
}

// Release says that a segment's frames are needed no more.
type Release struct{ Segment Segment }

// Wake asks for Woke at a time, of which a later Wake takes the place.
type Wake struct{ At time.Duration }

func (Encode) cameraAction()  {}
func (Skip) cameraAction()    {}
func (Detect) cameraAction()  {}
func (Measure) cameraAction() {}
func (Track) cameraAction()   {}
func (Try) cameraAction()     {}
func (Release) cameraAction() {}
func (Wake) cameraAction()    {}
func (Results) cameraAction() {}
