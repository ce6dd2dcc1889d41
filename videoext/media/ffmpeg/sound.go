//go:build cgo && !noffmpeg

package ffmpeg

// #include "sound.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
)

// Sound is the sound of a file in memory, its channels mixed. It is for one goroutine at a time.
type Sound struct {
	c    *C.pf_sound
	pin  runtime.Pinner // of the file
	rate C.int
}

// OpenSound opens the first or best sound of a file, which stays as it is until Close.
func OpenSound(ctx context.Context, file []byte) (*Sound, error) {
	if err := open(); err != nil {
		return nil, err
	}
	if len(file) == 0 {
		return nil, errors.New("the file is empty")
	}
	s := &Sound{c: C.pf_sound_new()}
	if s.c == nil {
		return nil, errors.New("no memory")
	}
	s.pin.Pin(&file[0])
	if s.do(ctx, func() C.int { return C.pf_sound_open(s.c, (*C.uint8_t)(&file[0]), C.int64_t(len(file)), &s.rate) }) < 0 {
		defer s.Close()
		return nil, s.failure(ctx, "cannot be opened as sound")
	}
	return s, nil
}

// Rate is how many samples there are in a second.
func (s *Sound) Rate() int { return int(s.rate) }

// Next writes the samples that come next, of which 1 is the loudest, and says how many; io.EOF at the end. What cannot be decoded is left out.
func (s *Sound) Next(ctx context.Context, into []float32) (int, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if len(into) == 0 {
		return 0, nil
	}
	n := s.do(ctx, func() C.int { return C.pf_sound_next(s.c, (*C.float)(&into[0]), C.int(len(into))) })
	switch {
	case n < 0:
		return 0, s.failure(ctx, "cannot be read")
	case n == 0:
		return 0, io.EOF
	}
	return int(n), nil
}

func (s *Sound) do(ctx context.Context, call func() C.int) C.int {
	return interruptibly(ctx, func(yes C.int) { C.pf_sound_interrupt(s.c, yes) }, call)
}

func (s *Sound) failure(ctx context.Context, what string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("the file %s: %w", what, failure(C.pf_sound_error(s.c)))
}

// Close frees the sound.
func (s *Sound) Close() {
	C.pf_sound_close(s.c)
	s.pin.Unpin()
}
