//go:build !cgo || noffmpeg

package ffmpeg

import (
	"context"
	"errors"
	"time"

	"github.com/prefillonly/prefillonly/videoext/media"
)

var errMissing = errors.New("this program is built without FFmpeg's libraries, which video and all sound but WAV need; build it with cgo, without the tag noffmpeg, and with Debian's libavformat-dev and libswscale-dev")

// Available says why this program cannot read video here.
func Available() error { return errMissing }

// Clip is an open source of frames; here there is none.
type Clip struct{}

// Open fails.
func Open(context.Context, string, Options) (*Clip, error) { return nil, errMissing }

func (*Clip) Info() Info                                 { return Info{} }
func (*Clip) Next(context.Context) (*media.Frame, error) { return nil, errMissing }
func (*Clip) Seek(context.Context, time.Duration) error  { return errMissing }
func (*Clip) Damaged() int                               { return 0 }
func (*Clip) Bytes() int                                 { return 0 }
func (*Clip) Close() error                               { return nil }

// Sound is the sound of a file; here there is none.
type Sound struct{}

// OpenSound fails.
func OpenSound(context.Context, []byte) (*Sound, error) { return nil, errMissing }

func (*Sound) Rate() int                                    { return 0 }
func (*Sound) Next(context.Context, []float32) (int, error) { return 0, errMissing }
func (*Sound) Close()                                       {}

// Decode fails.
func Decode(context.Context, *media.Segment) ([]*media.Frame, error) { return nil, errMissing }

// MP4 fails.
func MP4(*media.Segment) ([]byte, error) { return nil, errMissing }

// Scaler scales no frames here.
type Scaler struct{}

func (*Scaler) Scale(*media.Frame, int, int) (*media.Frame, error) { return nil, errMissing }
func (*Scaler) BGR(*media.Frame, int, int, []byte) error           { return errMissing }
func (*Scaler) Close()                                             {}
