package pipe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
)

// source is an open clip with its last frames in memory: a segment is encoded more than once.
type source struct {
	clip     *ffmpeg.Clip
	name     string
	kept     []*media.Frame
	first    int // the number of kept[0] among the clip's samples
	previous int // the first frame of the request before
	ended    bool
}

// readFrames are count frames from a number on, fewer at the end of the clip. io.EOF is in the error if it has none of
// them. Frames before those of the previous request and of this one are forgotten; asked for again, they are decoded
// from the beginning.
func (s *source) readFrames(ctx context.Context, first, count int) ([]*media.Frame, error) {
	if first < 0 || count < 1 || count > media.MaxFrames {
		return nil, fmt.Errorf("%d frames from number %d on are asked for", count, first)
	}
	if first < s.first {
		if err := s.clip.Seek(ctx, 0); err != nil {
			return nil, err
		}
		s.kept, s.first, s.ended = nil, 0, false
	}
	from := min(first, s.previous)
	s.previous = first
	if err := s.readTo(ctx, from, first+count); err != nil {
		return nil, err
	}
	if first >= s.first+len(s.kept) {
		return nil, fmt.Errorf("%s has %d frames, and number %d is asked for: %w", s.name, s.first+len(s.kept), first, io.EOF)
	}
	return s.kept[first-s.first : min(first+count-s.first, len(s.kept))], nil
}

// readTo reads until number end, and keeps frames from number from on.
func (s *source) readTo(ctx context.Context, from, end int) error {
	s.forgetFrames(from)
	for s.first+len(s.kept) < end && !s.ended {
		f, err := s.clip.Next(ctx)
		if errors.Is(err, io.EOF) {
			s.ended = true
			break
		}
		if err != nil {
			return err
		}
		s.kept = append(s.kept, f)
		s.forgetFrames(from)
		if len(s.kept)*(len(f.Y)+2*len(f.Cb)) > maxRaw {
			return fmt.Errorf("%s: frames %d to %d, with those of the request before, have more than %d bytes: ask for fewer", s.name, from, end-1, maxRaw)
		}
	}
	return nil
}

// forgetFrames drops frames before a number, or all if it is behind them.
func (s *source) forgetFrames(from int) {
	n := min(max(from-s.first, 0), len(s.kept))
	s.kept, s.first = slices.Delete(s.kept, 0, n), s.first+n
}
