// Package x264 encodes segments of video as H.264 by libx264, with a quantiser for every macroblock if need be.
// It is apart because it is cgo, and links libx264.
//
// libx264 is licensed under the GPL, version 2 or later, and so is every program that links it: only cmd/camera may
// import this package, a program of its own that the server talks to.
//
// Of x264's ways to quantise, offsets of macroblocks are looked at with adaptive quantisation alone; a constant
// quantiser, or a strength of 0, drops them without a word. So maps are encoded with a constant rate factor, a
// strength of 1e-6, no macroblock tree, a forced quantiser for each frame, and offsets from it.
//
// The bytes depend on frames, settings, threads and libx264's build alone. Units are without SEI, in which x264
// describes itself in 700 bytes.
package x264

import (
	"context"
	"errors"
	"fmt"

	"github.com/prefillonly/prefillonly/videoext/media"
)

// Encoder encodes segments. The zero value uses one thread.
type Encoder struct {
	Threads int // of one encoding; their number is part of what the bytes depend on
}

// Encode encodes frames of one size as one segment. It does not scale: the settings' size, if given, is that of the
// frames. An error says which setting or frame is wrong. It ends early with ctx.
func (e Encoder) Encode(ctx context.Context, frames []*media.Frame, s media.Settings) (*media.Segment, error) {
	if err := checkFrames(frames, &s); err != nil {
		return nil, err
	}
	return encode(ctx, frames, &s, max(e.Threads, 1))
}

func checkFrames(frames []*media.Frame, s *media.Settings) error {
	if len(frames) == 0 {
		return errors.New("0 frames are to be encoded")
	}
	width, height := frames[0].Width, frames[0].Height
	if err := s.Check(len(frames), width, height); err != nil {
		return err
	}
	if w, h := s.Size(width, height); w != width || h != height {
		return fmt.Errorf("frames of %d x %d pixels are to be encoded at %d x %d: scale them before", width, height, w, h)
	}
	for i, f := range frames {
		if err := f.Check(); err != nil {
			return fmt.Errorf("frame %d: %w", i, err)
		}
		if f.Width != width || f.Height != height || f.Matrix != frames[0].Matrix {
			return fmt.Errorf("frame %d has %d x %d pixels of matrix %d, and the first %d x %d of matrix %d", i, f.Width, f.Height, f.Matrix, width, height, frames[0].Matrix)
		}
	}
	return nil
}
