// Package method is the plug-in point of ways to stream video to a network on a server: what a camera's side and a server's
// side of a method are told, and what they ask for.
//
// Both sides are pure: Step takes the time and one message and returns what is to be done. Who carries that out - encodes,
// sends, infers - is a shell: an emulator in virtual time, or two processes. Frames stay with the shell, and messages
// name them by segment and number. methodtest has the suite that every method passes.
package method

import "time"

// Camera is a method's side where frames arise. One goroutine uses it.
type Camera interface {
	// Step takes what happened, and when, by a clock of the camera's own that never goes back.
	Step(now time.Duration, event CameraEvent) []CameraAction
}

// Server is a method's side where the network is, for one stream. One goroutine uses it.
type Server interface {
	// Step takes what happened, and when, by a clock of the server's own that never goes back.
	Step(now time.Duration, event ServerEvent) []ServerAction
}

// Method is a way to stream, with all its settings.
type Method struct {
	Name       string  // such as dds
	Setting    string  // tells it from others of that name, such as 36/26
	Frames     int     // of a segment; the last one of a stream may have fewer
	Gradients  bool    // it asks for gradients of the server's network
	Inferences float64 // of the network, for each frame, gradients included; 0: one
	// New makes both sides for a new stream.
	New func() (Camera, Server)
}

// Segment is a segment's number in its stream, from 0. Segments are captured in order, each once.
type Segment int

// Stream tells apart what is sent of one segment.
type Stream uint8

// What is sent of a segment: A as it is captured, B on the server's request.
const (
	A Stream = iota
	B
)

func (s Stream) String() string { return string('A' + rune(s)) }
