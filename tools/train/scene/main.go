// Command scene writes drawn clips and what is in them, for tools/train/scene/train.py.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/scene"
)

func main() {
	width, height := flag.Int("width", 640, "of frames, in pixels"), flag.Int("height", 360, "of frames, in pixels")
	seed := flag.Uint64("seed", 1, "of the street")
	frames, rate := flag.Int("frames", 10, "to write"), flag.Int("rate", 10, "frames a second")
	clip, boxes := flag.String("clip", "clip.y4m", "file of YUV4MPEG2 to write"), flag.String("boxes", "boxes.txt", "file of boxes to write, a line each: frame class x0 y0 x1 y1")
	flag.Parse()
	if err := write(scene.New(*width, *height, *seed), *frames, *rate, *clip, *boxes); err != nil {
		fmt.Fprintln(os.Stderr, "scene:", err)
		os.Exit(1)
	}
}

func write(s *scene.Scene, frames, rate int, clip, boxes string) error {
	video, err := os.Create(clip)
	if err != nil {
		return err
	}
	defer video.Close()
	list, err := os.Create(boxes)
	if err != nil {
		return err
	}
	defer list.Close()
	lines := bufio.NewWriter(list)
	err = s.Clip(video, frames, rate, func(frame int, all []videoext.Detection) error {
		for _, d := range all {
			if _, err := fmt.Fprintf(lines, "%d %d %.5f %.5f %.5f %.5f\n", frame, d.Class, d.X0, d.Y0, d.X1, d.Y1); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return lines.Flush()
}
