//go:build cgo && !noffmpeg

package ffmpeg

// #include <stdlib.h>
// #include "clip.h"
import "C"

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"runtime"
	"time"
	"unsafe"

	"github.com/prefillonly/prefillonly/internal/reach"
	"github.com/prefillonly/prefillonly/internal/regular"
	"github.com/prefillonly/prefillonly/videoext/media"
)

// Clip is an open source of frames. It is for one goroutine at a time.
type Clip struct {
	c       *C.pf_clip
	file    *os.File // nil: a camera
	name    string   // for errors: without secrets
	info    Info
	sampler sampler
	clock   *media.Clock
	broken  bool          // there was a discontinuity since the last frame that was given
	index   int           // of the frame that is decoded next
	skip    time.Duration // frames before it are left out, after a seek
	keyless func()
	stage   func(ctx context.Context, decode func() error) error // of Options
	read    bool                                                 // a packet, or the end, which is to be decoded
}

// Open opens a file of video, or the camera of an rtsp:// or rtsps:// URL. Errors name it. A context that ends ends the
// opening.
func Open(ctx context.Context, name string, o Options) (*Clip, error) {
	if err := cmp.Or(open(), ctx.Err()); err != nil {
		return nil, err
	}
	c := &Clip{name: name, sampler: sampler{rate: o.Rate}, clock: cmp.Or(o.Clock, new(media.Clock)), keyless: o.Keyless, stage: o.Stage}
	if o.Rate < 0 || math.IsNaN(o.Rate) || math.IsInf(o.Rate, 0) {
		return nil, fmt.Errorf("a rate of %v frames in a second is not valid", o.Rate)
	}
	if IsRTSP(name) {
		if err := c.openCamera(ctx, name, o); err != nil {
			return nil, err
		}
		return c, nil
	}
	var err error
	if c.file, err = regular.Open(name); err != nil {
		return nil, err
	}
	if err := c.start(ctx, "", o); err != nil {
		return nil, errors.Join(err, c.closeFile())
	}
	return c, nil
}

// Bounds on what opening a camera connects to.
const (
	maxRedirects = 3
	maxAddresses = 4 // of a host
)

// openCamera opens a camera, where it redirects to.
func (c *Clip) openCamera(ctx context.Context, name string, o Options) error {
	to, err := ParseAddress(name)
	if err != nil {
		return fmt.Errorf("the camera's address: %w", err)
	}
	if o.Resolve == nil {
		o.Resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return new(reach.Policy).Resolve(ctx, host, true)
		}
	}
	for range 1 + maxRedirects {
		c.name = to.String()
		next, err := c.openAt(ctx, to, o)
		if next == nil {
			return err
		}
		to = next
	}
	return fmt.Errorf("%s: it redirects more than %d times", c.name, maxRedirects)
}

// openAt opens a camera at the first of its host's addresses that answers, or returns where that redirects to.
func (c *Clip) openAt(ctx context.Context, to *Address, o Options) (next *Address, err error) {
	addresses, err := o.Resolve(ctx, to.Host)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	for _, at := range addresses[:min(len(addresses), maxAddresses)] {
		if err = c.start(ctx, to.At(at), o); err == nil || ctx.Err() != nil {
			return nil, err
		}
		if redirected := new(redirection); errors.As(err, &redirected) {
			if next, err = to.Redirected(redirected.to, at); err != nil {
				err = fmt.Errorf("%s: %w", c.name, err)
			}
			return next, err
		}
	}
	return nil, err
}

// redirection is why a camera was not opened.
type redirection struct{ to string }

func (r *redirection) Error() string { return "it redirects" }

// start opens the file, or the camera of a URL.
func (c *Clip) start(ctx context.Context, camera string, o Options) error {
	if c.c = C.pf_clip_new(); c.c == nil {
		return errors.New("no memory")
	}
	fd, address, timeout := C.int(-1), (*C.char)(nil), time.Duration(0)
	if camera != "" {
		address, timeout = C.CString(camera), o.Timeout
		defer C.free(unsafe.Pointer(address))
		if timeout <= 0 {
			timeout = DefaultTimeout
		}
	} else {
		fd = C.int(c.file.Fd())
	}
	var info C.pf_clip_info
	result := c.do(ctx, func() C.int { return C.pf_clip_connect(c.c, fd, address, C.int64_t(timeout), &info) })
	if result >= 0 && info.headers != nil { // as cameras say in their descriptions
		if early := described(C.GoString(info.codec), headersOf(&info), int(info.tracks)); early.Memory > 0 {
			if err := o.admit(early); err != nil {
				c.free()
				return err
			}
		}
	}
	if result >= 0 {
		result = c.do(ctx, func() C.int { return C.pf_clip_open(c.c, C.int(max(o.Threads, 1)), media.MaxPixels, &info) })
	}
	if result < 0 {
		defer c.free()
		if to := C.GoString(C.pf_clip_redirected(c.c)); to != "" && ctx.Err() == nil {
			return &redirection{to}
		}
		return c.failure(ctx, "cannot be opened as video")
	}
	c.info = Info{Width: int(info.width), Height: int(info.height), Duration: time.Duration(info.duration), Codec: C.GoString(info.codec)}
	if info.rate.num > 0 && info.rate.den > 0 {
		c.info.Rate = float64(info.rate.num) / float64(info.rate.den)
		c.clock.Step = time.Duration(min(1/c.info.Rate, 3600) * float64(time.Second))
	}
	if camera != "" || info.joined != 0 {
		c.clock.Leap = maxLeap + 10*c.clock.Step
	}
	c.clock.Reopen()
	pixels, frames := c.info.bounds(codingOf(c.info.Codec, headersOf(&info)).references + int(info.delay))
	c.info.Memory = need(pixels, frames, int(info.bits), int(info.tracks))
	C.pf_clip_bound(c.c, C.int64_t(pixels), C.int(frames))
	if err := o.admit(c.info); err != nil {
		c.free()
		return err
	}
	return nil
}

func headersOf(info *C.pf_clip_info) []byte {
	return unsafe.Slice((*byte)(info.headers), int(info.headers_size))
}

func (c *Clip) do(ctx context.Context, call func() C.int) C.int {
	return interruptibly(ctx, func(yes C.int) { C.pf_clip_interrupt(c.c, yes) }, call)
}

// failure is what went wrong in C.
func (c *Clip) failure(ctx context.Context, what string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	return fmt.Errorf("%s: it %s: %w", c.name, what, failure(C.pf_clip_error(c.c)))
}

// Info describes the source.
func (c *Clip) Info() Info { return c.info }

// Next returns the next frame, in the order of time, which goes on where the source's own does not (see media.Clock); io.EOF at the end, which is also where a camera hangs up. What cannot be decoded is left out and counted
// in Damaged. After a context that ended, or an error of a camera, a camera must be opened anew.
func (c *Clip) Next(ctx context.Context) (*media.Frame, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		var frame C.pf_frame
		result, err := c.decode(ctx, &frame)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		if c.read = result == C.PF_CLIP_EMPTY; c.read {
			result = c.do(ctx, func() C.int { return C.pf_clip_read(c.c) })
		}
		switch {
		case c.read && result >= 0:
			continue
		case result == 0 && c.index == 0:
			return nil, fmt.Errorf("%s: it ends before its first frame: %w", c.name, io.ErrUnexpectedEOF)
		case result == 0:
			return nil, io.EOF
		case result < 0 && c.index == 0:
			return nil, c.failure(ctx, "cannot be read to its first frame")
		case result < 0:
			return nil, c.failure(ctx, fmt.Sprintf("cannot be read behind frame %d", c.index-1))
		case result == C.PF_CLIP_KEYLESS:
			if c.keyless != nil {
				c.keyless()
			}
			continue
		}
		index, at := c.place(&frame)
		c.index = index + 1
		if at < c.skip || !c.sampler.takes(at) {
			continue
		}
		c.skip = math.MinInt64
		return c.copy(&frame, index, at)
	}
}

// decode makes a frame of what was read, on a processor of Options.Stage.
func (c *Clip) decode(ctx context.Context, frame *C.pf_frame) (result C.int, err error) {
	next := func() error {
		result = c.do(ctx, func() C.int { return C.pf_clip_next(c.c, frame) })
		return nil
	}
	if c.stage == nil || !c.read {
		err = next()
	} else {
		err = c.stage(ctx, next)
	}
	return result, err
}

// place is which frame of the source this is, and when.
func (c *Clip) place(frame *C.pf_frame) (index int, at time.Duration) {
	var now time.Time // files are read at any pace
	if c.file == nil {
		now = time.Now()
	}
	if frame.time == math.MinInt64 { // the first ones of a camera may come without a time
		at = c.clock.Untimed(now)
	} else {
		var broken bool
		at, broken = c.clock.Time(time.Duration(frame.time), now)
		c.broken = c.broken || broken
	}
	if c.index < 0 { // after a seek
		return int(math.Round(at.Seconds() * c.info.Rate)), at
	}
	return c.index, at
}

func (c *Clip) copy(frame *C.pf_frame, index int, at time.Duration) (*media.Frame, error) {
	width, height := int(frame.width), int(frame.height)
	if err := media.CheckSize(width, height); err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	f := media.NewFrame(width, height)
	f.Index, f.Time, f.Broken, f.Matrix = index, at, c.broken, matrix(frame.bt709)
	c.broken = false
	var pin runtime.Pinner
	defer pin.Unpin()
	to := picture(f, &pin)
	if C.pf_clip_copy(c.c, &to) < 0 {
		return nil, fmt.Errorf("%s: frame %d: %w", c.name, index, failure(C.pf_clip_error(c.c)))
	}
	return f, nil
}

// Seek goes to a time since the beginning: the next frame is the first at or after it. A frame's Index is then the
// product of its time and the source's rate. Going back to 0 begins the source anew. Cameras cannot.
func (c *Clip) Seek(ctx context.Context, to time.Duration) error {
	if c.file == nil {
		return fmt.Errorf("%s: a camera cannot go to another time", c.name)
	}
	if c.do(ctx, func() C.int { return C.pf_clip_seek(c.c, C.int64_t(to)) }) < 0 {
		return c.failure(ctx, fmt.Sprintf("cannot go to %v", to))
	}
	*c.clock = media.Clock{Step: c.clock.Step, Leap: c.clock.Leap}
	c.sampler.seek(to)
	c.skip, c.index = to-sampleSlack, -1
	if to <= 0 {
		c.skip, c.index = math.MinInt64, 0
	}
	return nil
}

// Damaged counts packets and frames that could not be decoded, or not well.
func (c *Clip) Damaged() int { return int(C.pf_clip_damaged(c.c)) }

// Bytes counts what was read of the video, as it is encoded.
func (c *Clip) Bytes() int { return int(C.pf_clip_bytes(c.c)) }

// Close frees the source.
func (c *Clip) Close() error {
	c.free()
	return c.closeFile()
}

func (c *Clip) free() {
	if c.c != nil {
		C.pf_clip_close(c.c)
		c.c = nil
	}
}

func (c *Clip) closeFile() error {
	if c.file == nil {
		return nil
	}
	return c.file.Close()
}

func matrix(bt709 C.int) media.Matrix {
	if bt709 != 0 {
		return media.BT709
	}
	return media.BT601
}

// picture describes a frame to C while its planes are pinned.
func picture(f *media.Frame, pin *runtime.Pinner) C.pf_picture {
	p := C.pf_picture{width: C.int(f.Width), height: C.int(f.Height), stride: [3]C.int{C.int(f.YStride), C.int(f.CStride), C.int(f.CStride)}}
	if f.Matrix == media.BT709 {
		p.bt709 = 1
	}
	for i, plane := range [][]byte{f.Y, f.Cb, f.Cr} {
		pin.Pin(&plane[0])
		p.plane[i] = (*C.uint8_t)(&plane[0])
	}
	return p
}
