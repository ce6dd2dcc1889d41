package scene

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/media"
)

// Clip writes the first frames of a scene at a rate, in frames a second, as YUV4MPEG2 (yuv4mpeg(5) of mjpegtools), which FFmpeg's
// libraries read, and tells each frame's true boxes to boxes, if it is given.
func (s *Scene) Clip(to io.Writer, frames, rate int, boxes func(frame int, all []videoext.Detection) error) error {
	out := bufio.NewWriterSize(to, 1<<20)
	b := s.background.Bounds()
	fmt.Fprintf(out, "YUV4MPEG2 W%d H%d F%d:1 Ip A1:1 C420mpeg2\n", b.Dx(), b.Dy(), rate)
	for i := range frames {
		f, all := s.Frame(time.Duration(i) * time.Second / time.Duration(rate))
		if err := writeFrame(out, f); err != nil {
			return err
		}
		if boxes == nil {
			continue
		}
		if err := boxes(i, all); err != nil {
			return err
		}
	}
	return out.Flush()
}

// writeFrame writes a frame whose rows are without gaps.
func writeFrame(out *bufio.Writer, f *media.Frame) (err error) {
	for _, part := range [][]byte{[]byte("FRAME\n"), f.Y, f.Cb, f.Cr} {
		if _, err = out.Write(part); err != nil {
			return err
		}
	}
	return nil
}
