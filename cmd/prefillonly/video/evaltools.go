package video

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/modellist"
	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/detect"
	"github.com/prefillonly/prefillonly/videoext/emulate"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/media/pipe"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/vision"
)

// evalCodec encodes in the camera program, and decodes here.
type evalCodec struct {
	ctx    context.Context
	client *pipe.Client
	scaler ffmpeg.Scaler
}

func (c *evalCodec) close() {
	c.scaler.Close()
	_ = c.client.Close() // it has nothing left to lose
}

// Encode implements emulate.Codec.
func (c *evalCodec) Encode(frames []*media.Frame, s media.Settings) (emulate.Coded, error) {
	before := c.client.Times()
	segment, err := c.client.Encode(c.ctx, frames, s)
	if err != nil {
		return emulate.Coded{}, err
	}
	after := c.client.Times()
	file, err := ffmpeg.MP4(segment)
	return emulate.Coded{Segment: segment, Container: len(file), Took: after.Processor - before.Processor}, err
}

// Decode implements emulate.Codec.
func (c *evalCodec) Decode(s *media.Segment) ([]*media.Frame, error) { return ffmpeg.Decode(c.ctx, s) }

// Scale implements emulate.Codec.
func (c *evalCodec) Scale(f *media.Frame, width, height int) (*media.Frame, error) {
	if f.Width == width && f.Height == height {
		return f, nil
	}
	return c.scaler.Scale(f, width, height)
}

// readClip reads frames into memory, which is bounded by maxClip.
func (f *evalFlags) readClip(ctx context.Context, name string) (*emulate.Clip, error) {
	if ffmpeg.IsRTSP(name) {
		return nil, errors.New("a clip is a file, and this is a URL")
	}
	source, err := ffmpeg.Open(ctx, name, ffmpeg.Options{Rate: f.rate})
	if err != nil {
		return nil, err
	}
	defer source.Close()
	file, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	info := source.Info()
	clip := &emulate.Clip{Name: strings.TrimSuffix(filepath.Base(name), filepath.Ext(name)), Rate: info.Rate}
	if f.rate > 0 && (f.rate < info.Rate || info.Rate == 0) {
		clip.Rate = f.rate
	}
	skip := int(math.Round(f.from * clip.Rate))
	for n, bytes := 0, 0; ; n++ {
		frame, err := source.Next(ctx)
		if errors.Is(err, io.EOF) || err == nil && f.seconds > 0 && float64(len(clip.Frames)) >= f.seconds*clip.Rate {
			break
		}
		if err == nil && n < skip {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if bytes += len(frame.Y) + len(frame.Cb) + len(frame.Cr); bytes > maxClip {
			return nil, fmt.Errorf("%s: %d frames take more than %d MiB: say with --seconds or --rate to take fewer", name, len(clip.Frames), maxClip>>20)
		}
		clip.Frames = append(clip.Frames, frame)
	}
	if len(clip.Frames) == 0 {
		return nil, fmt.Errorf("%s has no frames after its first %g seconds", name, f.from)
	}
	clip.Bytes = int(file.Size())
	if used := float64(len(clip.Frames)) / clip.Rate; info.Duration > 0 && used < info.Duration.Seconds() {
		clip.Bytes = int(float64(clip.Bytes) * used / info.Duration.Seconds())
	}
	return clip, nil
}

// maxClip is how many bytes of frames are kept of a clip.
const maxClip = 2 << 30

// open opens a detector at about the clip's resolution, if its file leaves that open or it is one of those that take any.
func (e *evaluation) open(file, decoder, image string, clip *emulate.Clip) (*evalNetwork, error) {
	o, err := detect.ForFrames(decoder, clip.Frames[0].Width, clip.Frames[0].Height)
	if err != nil {
		return nil, cli.UsageError("%w", err)
	}
	if image != "" {
		entry, err := config.ParseImage(image)
		if err != nil {
			return nil, cli.UsageError("--image: %w", err)
		}
		o.Image = modellist.ImageOptions(&entry)
	}
	n := &evalNetwork{utility: oneadapt.UsualUtility()}
	if e.found > 0 {
		n.utility.Threshold = e.found // what counts as found is what gradients are of
	}
	if e.classes != "" {
		if n.wanted, err = classNumbers(o.Decoder, strings.Split(e.classes, ",")); err != nil {
			return nil, cli.UsageError("--classes: %w", err)
		}
		o.Vision.Wanted = n.wanted
	}
	n.detector, err = detect.Open(file, e.backend, o)
	return n, err
}

// classNumbers are those of labels or numbers.
func classNumbers(d *vision.Decoder, labels []string) (numbers []int, err error) {
	for _, label := range labels {
		n, err := strconv.Atoi(label)
		if err != nil {
			if n, err = d.Class(label); err != nil {
				return nil, err
			}
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

// evalNetwork finds things of some classes, taken as one.
type evalNetwork struct {
	detector *detect.Detector
	wanted   []int // nil: all, each by itself
	utility  oneadapt.Utility
}

// Infer implements emulate.Network.
func (n *evalNetwork) Infer(f *media.Frame) (videoext.Findings, error) {
	found, err := n.detector.Find(f)
	if err != nil || n.wanted == nil {
		return found, err
	}
	if found.Mask != nil {
		asOne(found.Mask.Class, n.wanted)
	}
	some := slices.Clone(videoext.OfClasses(found.Detections, n.wanted))
	for i := range some {
		some[i].Class = n.wanted[0]
	}
	found.Detections = videoext.Suppress(some, vision.DefaultIoU)
	return found, nil
}

// Gradient implements emulate.GradientSource.
func (n *evalNetwork) Gradient(f *media.Frame) (*oneadapt.Map, error) {
	return n.detector.FrameGradient(f, n.utility)
}

// asOne makes 1 of the wanted classes of pixels, and 0 of the others.
func asOne(pixels []uint8, wanted []int) {
	for i, class := range pixels {
		pixels[i] = 0
		if slices.Contains(wanted, int(class)) {
			pixels[i] = 1
		}
	}
}

// processorTime is what this process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
