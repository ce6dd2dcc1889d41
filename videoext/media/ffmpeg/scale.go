//go:build cgo && !noffmpeg

package ffmpeg

// #include "picture.h"
import "C"

import (
	"fmt"
	"runtime"

	"github.com/prefillonly/prefillonly/videoext/media"
)

// Scaler scales frames by bicubic interpolation, and converts their colours. It is for one goroutine at a time, and
// quick while sizes stay the same. The zero value is ready.
type Scaler struct{ cached *C.struct_SwsContext }

// Scale returns the frame in another size.
func (s *Scaler) Scale(f *media.Frame, width, height int) (*media.Frame, error) {
	if err := media.CheckSize(width, height); err != nil {
		return nil, err
	}
	to := media.NewFrame(width, height)
	to.Index, to.Time, to.Matrix = f.Index, f.Time, f.Matrix
	var pin runtime.Pinner
	defer pin.Unpin()
	return to, s.scale(f, picture(to, &pin), 0)
}

// BGR writes the frame in a size as rows of blue, green and red in full range, as inputs of detectors have them
// (NHWC); into has 3*width*height bytes.
func (s *Scaler) BGR(f *media.Frame, width, height int, into []byte) error {
	if err := media.CheckSize(width, height); err != nil {
		return err
	}
	if len(into) != 3*width*height {
		return fmt.Errorf("a picture of %d x %d pixels has %d bytes of BGR, and there is room for %d", width, height, 3*width*height, len(into))
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&into[0])
	to := C.pf_picture{width: C.int(width), height: C.int(height)}
	to.plane[0], to.stride[0] = (*C.uint8_t)(&into[0]), C.int(3*width)
	return s.scale(f, to, 1)
}

func (s *Scaler) scale(f *media.Frame, to C.pf_picture, bgr C.int) error {
	if err := open(); err != nil {
		return err
	}
	if err := f.Check(); err != nil {
		return err
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	from := picture(f, &pin)
	if C.pf_scale(&s.cached, &from, &to, bgr) < 0 {
		return fmt.Errorf("a frame of %d x %d pixels cannot be scaled to %d x %d", f.Width, f.Height, int(to.width), int(to.height))
	}
	return nil
}

// Close frees what is kept between frames.
func (s *Scaler) Close() {
	if s.cached != nil {
		C.pf_scale_free(s.cached)
		s.cached = nil
	}
}
