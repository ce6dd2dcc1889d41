package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/scene"
)

// writeClip writes a drawn clip and what is in it, for tools/train/scene/train.py.
func writeClip(args []string) error {
	flags := flag.NewFlagSet("scene", flag.ExitOnError)
	width, height := flags.Int("width", 640, "of frames, in pixels"), flags.Int("height", 360, "of frames, in pixels")
	seed := flags.Uint64("seed", 1, "of the street")
	frames, rate := flags.Int("frames", 10, "to write"), flags.Int("rate", 10, "frames a second")
	clip, boxes := flags.String("clip", "clip.y4m", "file of YUV4MPEG2 to write"), flags.String("boxes", "boxes.txt", "file of boxes to write, a line each: frame class x0 y0 x1 y1")
	_ = flags.Parse(args)
	video, err := os.Create(*clip)
	if err != nil {
		return err
	}
	defer video.Close()
	list, err := os.Create(*boxes)
	if err != nil {
		return err
	}
	defer list.Close()
	lines := bufio.NewWriter(list)
	err = scene.New(*width, *height, *seed).Clip(video, *frames, *rate, func(frame int, all []videoext.Detection) error {
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
