// Package camera is the camera's side of a stream of video, live: it takes frames, carries out what a method asks for, and says so to a
// server in sessions, one after the other.
//
// What is decided is pure: stream, of a ledger of what is not done and an estimate of the link. Around it are goroutines that take
// frames (film), work on them (worker) and hear the server; Run starts all of them and ends when they have.
package camera

import (
	"context"
	"io"
	"time"

	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/method"
)

// Peer is the server's end.
type Peer interface {
	// Connect begins a session, in which the camera says what is read from body, until it is closed.
	Connect(ctx context.Context, body io.ReadCloser) (Connection, error)
}

// Connection is a session: what the server says, and how far it has what was said to it.
type Connection interface {
	io.Reader
	io.ByteReader
	io.Closer
	// Unacknowledged is how many bytes were sent and are not known to have arrived.
	Unacknowledged() int
}

// Config is a camera.
type Config struct {
	Name string // for the server's log
	Peer Peer
	Footage
	Width, Height int // of a frame
	Encoder       Encoder
	Detector      Detector // for methods that find things on the camera; may be nil
	Preset        string   // for methods that name none; empty: media.DefaultPreset
	Memory        int      // bytes of frames that are kept; 0: DefaultMemory
	// Observe is told what happens, by the goroutine of Run; it may be nil.
	Observe func(Event)
}

// DefaultMemory is room for ten segments of 15 frames in 1080p.
const DefaultMemory = 512 << 20

// Event is one of the types below.
type Event interface{ isEvent() }

// Connected says that a session has begun.
type Connected struct {
	Method string
	Next   method.Segment
}

// Disconnected says that there is no session.
type Disconnected struct {
	Err   error
	Retry time.Duration // after which there is another try
}

// Finished says that a segment has its results.
type Finished struct {
	Segment   method.Segment
	Frames    int
	Bytes     [2]int        // that were sent of each stream
	Delay     time.Duration // from its last frame on
	Bandwidth float64       // of the link, estimated, in bytes a second; 0: unknown
}

// SourceLost says that a live source is not there, and is looked for.
type SourceLost struct{ Err error }

// NotDone says that a part of a segment could not be encoded, and is left out, or that the camera's network could not look at it.
type NotDone struct{ Err error }

func (Connected) isEvent()    {}
func (Disconnected) isEvent() {}
func (Finished) isEvent()     {}
func (SourceLost) isEvent()   {}
func (NotDone) isEvent()      {}

// Totals are what a camera did.
type Totals struct {
	Frames, Dropped int    // taken; and those for which there was no room
	Segments, Done  int    // and those that got their results
	LeftOut         [2]int // segments of which the camera left out a stream, of what was not sent in time or could not be encoded
	Sessions        int
	Bytes           [2]int        // that were encoded of each stream
	Delay           time.Duration // of all that are done
	Elapsed         time.Duration
	Times           Times
}

func (c *Config) check() error {
	if err := media.CheckSize(c.Width, c.Height); err != nil {
		return err
	}
	switch {
	case !(c.Rate > 0 && c.Rate <= 1000):
		return errRate(c.Rate)
	case c.Memory < 0:
		return errMemory(c.Memory)
	}
	return nil
}
