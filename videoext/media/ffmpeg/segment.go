//go:build cgo && !noffmpeg

package ffmpeg

// #include "segment.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"unsafe"

	"github.com/prefillonly/prefillonly/videoext/media"
)

// Decode decodes a segment, by one thread. The frames are in the order of time and have the index and the time that
// the segment says. All damage that the decoder sees is an error. It does not see every flipped bit, and so what comes
// over a network is to be a segment's wire form, which has a checksum.
func Decode(ctx context.Context, s *media.Segment) ([]*media.Frame, error) {
	if err := open(); err != nil {
		return nil, err
	}
	if err := s.Check(); err != nil {
		return nil, err
	}
	var message [C.PF_ERROR_SIZE]C.char
	d := C.pf_segment_decoder(1, media.MaxPixels, &message[0])
	if d == nil {
		return nil, fmt.Errorf("a segment cannot be decoded: %w", failure(&message[0]))
	}
	defer C.pf_segment_close(d)
	frames := make([]*media.Frame, len(s.Units))
	for i, u := range s.Units {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if C.pf_segment_send(d, (*C.uint8_t)(unsafe.SliceData(u.Data)), C.int(len(u.Data)), C.int(u.Order)) < 0 {
			return nil, fmt.Errorf("unit %d of a segment: %w", i, failure(&d.error[0]))
		}
		if err := receive(d, s, frames); err != nil {
			return nil, err
		}
	}
	if C.pf_segment_send(d, nil, 0, 0) < 0 {
		return nil, fmt.Errorf("the end of a segment: %w", failure(&d.error[0]))
	}
	if err := receive(d, s, frames); err != nil {
		return nil, err
	}
	for i, f := range frames {
		if f == nil {
			return nil, fmt.Errorf("frame %d of a segment of %d did not come out of its decoder", i, len(frames))
		}
	}
	return frames, nil
}

// receive takes the frames that are ready.
func receive(d *C.pf_decoder, s *media.Segment, frames []*media.Frame) error {
	for {
		var width, height, bt709 C.int
		var order C.int64_t
		switch result := C.pf_segment_receive(d, &width, &height, &bt709, &order); {
		case result == 0:
			return nil
		case result < 0:
			return fmt.Errorf("a segment cannot be decoded: %w", failure(&d.error[0]))
		case d.damaged > 0:
			return fmt.Errorf("frame %d of a segment is damaged", int(order))
		case int(width) != s.Width || int(height) != s.Height:
			return fmt.Errorf("a frame of a segment has %d x %d pixels, and the segment says %d x %d", int(width), int(height), s.Width, s.Height)
		case order < 0 || int(order) >= len(frames) || frames[order] != nil:
			return fmt.Errorf("frame %d of a segment came out of its decoder twice", int(order))
		}
		f := media.NewFrame(s.Width, s.Height)
		f.Matrix = matrix(bt709)
		for _, u := range s.Units {
			if u.Order == int(order) {
				f.Index, f.Time = u.Index, u.Time
			}
		}
		if err := copyFrame(d, f); err != nil {
			return err
		}
		frames[order] = f
	}
}

func copyFrame(d *C.pf_decoder, f *media.Frame) error {
	var pin runtime.Pinner
	defer pin.Unpin()
	to := picture(f, &pin)
	if C.pf_decoder_copy(d, &to) < 0 {
		return fmt.Errorf("a frame of a segment: %w", failure(&d.error[0]))
	}
	return nil
}

// MP4 puts a segment into a file of MP4, as its bytes: the form in which segments are stored, and played by browsers.
// The parameter sets are in the file's header alone.
func MP4(s *media.Segment) ([]byte, error) {
	if err := open(); err != nil {
		return nil, err
	}
	if err := s.Check(); err != nil {
		return nil, err
	}
	headers, units := annexB(s)
	if len(headers) == 0 {
		return nil, errors.New("a segment has no parameter sets")
	}
	const thousandths = 1000
	rate := C.AVRational{num: C.int(max(1, math.Round(s.Rate*thousandths))), den: thousandths}
	var message [C.PF_ERROR_SIZE]C.char
	m := C.pf_muxer_open(C.int(s.Width), C.int(s.Height), rate, (*C.uint8_t)(&headers[0]), C.int(len(headers)), &message[0])
	if m == nil {
		return nil, fmt.Errorf("MP4: %w", failure(&message[0]))
	}
	defer C.pf_muxer_close(m)
	ahead := delay(s)
	for i, u := range units {
		key := C.int(0)
		if i == 0 {
			key = 1
		}
		if C.pf_muxer_add(m, (*C.uint8_t)(&u[0]), C.int(len(u)), C.int64_t(s.Units[i].Order), C.int64_t(i-ahead), key, &message[0]) < 0 {
			return nil, fmt.Errorf("MP4: unit %d: %w", i, failure(&message[0]))
		}
	}
	var data *C.uint8_t
	var size C.int
	if C.pf_muxer_end(m, &data, &size, &message[0]) < 0 {
		return nil, fmt.Errorf("MP4: %w", failure(&message[0]))
	}
	return C.GoBytes(unsafe.Pointer(data), size), nil
}
