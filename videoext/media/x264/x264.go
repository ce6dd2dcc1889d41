//go:build cgo

package x264

// #cgo pkg-config: x264
// #include <stdlib.h>
// #include "encoder.h"
import "C"

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"unsafe"

	"github.com/prefillonly/prefillonly/videoext/media"
)

// Library names the libx264 that this program is compiled for.
func Library() string { return fmt.Sprintf("libx264 %d (GPL-2.0-or-later)", int(C.pf_build())) }

func encode(ctx context.Context, frames []*media.Frame, s *media.Settings, threads int) (*media.Segment, error) {
	e, err := open(frames, s, threads)
	if err != nil {
		return nil, err
	}
	defer C.pf_close(e)
	out := &media.Segment{Width: frames[0].Width, Height: frames[0].Height, Rate: s.Rate}
	for i := 0; len(out.Units) < len(frames); i++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var unit C.pf_unit
		result := C.int(0)
		if i < len(frames) {
			result = put(e, frames[i], i, s, &unit)
		} else if result = C.pf_encode(e, nil, &unit); result == 0 {
			return nil, fmt.Errorf("libx264 encoded %d of %d frames", len(out.Units), len(frames))
		}
		if result < 0 {
			return nil, fmt.Errorf("libx264: frame %d: %s", i, C.GoString(C.pf_error(e)))
		}
		if unit.size > 0 {
			order := int(unit.order)
			if order < 0 || order >= len(frames) {
				return nil, fmt.Errorf("libx264 says that it encoded frame %d of %d", order, len(frames))
			}
			data := C.GoBytes(unsafe.Pointer(unit.data), C.int(unit.size))
			out.Units = append(out.Units, media.Unit{Data: data, Order: order, Index: frames[order].Index, Time: frames[order].Time})
		}
	}
	return out, nil
}

func open(frames []*media.Frame, s *media.Settings, threads int) (*C.pf_encoder, error) {
	preset := C.CString(cmp.Or(s.Preset, media.DefaultPreset))
	defer C.free(unsafe.Pointer(preset))
	const thousandths = 1000
	c := C.pf_settings{
		width: C.int(frames[0].Width), height: C.int(frames[0].Height), frames: C.int(len(frames)), threads: C.int(threads),
		rate_num: C.uint32_t(max(1, math.Round(s.Rate*thousandths))), rate_den: thousandths, preset: preset,
		bframes: C.int(s.BFrames), b_bias: C.int(s.BBias), chroma_offset: C.int(s.ChromaOffset),
		ip_ratio: C.double(s.IPRatio), pb_ratio: C.double(s.PBRatio),
	}
	if frames[0].Matrix == media.BT709 {
		c.bt709 = 1
	}
	switch q := s.Quality.(type) {
	case media.QP:
		c.method, c.quality = C.PF_QP, C.double(q)
	case media.CRF:
		c.method, c.quality = C.PF_CRF, C.double(q)
	case media.Maps:
		c.method = C.PF_MAPS
	}
	var message [256]C.char
	e := C.pf_open(&c, &message[0], C.size_t(len(message)))
	if e == nil {
		return nil, fmt.Errorf("libx264: %s", C.GoString(&message[0]))
	}
	return e, nil
}

// put gives the encoder one frame. C keeps no pointer into it.
func put(e *C.pf_encoder, f *media.Frame, order int, s *media.Settings, unit *C.pf_unit) C.int {
	var pin runtime.Pinner
	defer pin.Unpin()
	at := func(b []byte) *C.uint8_t {
		pin.Pin(&b[0])
		return (*C.uint8_t)(&b[0])
	}
	c := C.pf_picture{order: C.int(order)}
	for i, plane := range [][]byte{f.Y, f.Cb, f.Cr} {
		c.plane[i] = at(plane)
	}
	c.stride = [3]C.int{C.int(f.YStride), C.int(f.CStride), C.int(f.CStride)}
	if maps, ok := s.Quality.(media.Maps); ok {
		c.quantisers = at(maps.ForFrame(order).QP)
	}
	return C.pf_encode(e, &c, unit)
}
