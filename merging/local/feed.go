package local

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/images"
	"github.com/prefillonly/prefillonly/merging"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
)

// feed is a clip's frames, each step-th of them: those trained on come first.
type feed struct {
	frames []picture
	step   int
}

// readFeed reads a clip's frames, in the size that they have in a network's input. Where all of them take more than most bytes, it keeps every
// second, fourth and so on.
func readFeed(ctx context.Context, clip string, to *images.Target, most int) (*feed, error) {
	c, err := ffmpeg.Open(ctx, clip, ffmpeg.Options{})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	f := &feed{step: 1}
	for i := 0; ; i++ {
		frame, err := c.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return f, f.checkLength(clip)
		case err != nil:
			return nil, err
		case i%f.step > 0:
			continue
		}
		f.frames = append(f.frames, scale(images.FromImage(frame.RGBA()), to))
		if len(f.frames)*len(f.frames[0].rgb) > most {
			f.thinFrames()
		}
	}
}

// thinFrames leaves out every second frame.
func (f *feed) thinFrames() {
	kept := 0
	for i := 0; i < len(f.frames); i += 2 {
		f.frames[kept] = f.frames[i]
		kept++
	}
	clear(f.frames[kept:])
	f.frames = f.frames[:kept]
	f.step *= 2
}

// fewestFrames are those of a feed that can be parted.
const fewestFrames = 10

func (f *feed) checkLength(clip string) error {
	if len(f.frames) < fewestFrames {
		return fmt.Errorf("%s: got %d frames, want %d or more to train on and to judge by", clip, len(f.frames), fewestFrames)
	}
	return nil
}

// A feed is parted in rounds, equal ones, each of which is trained on at first and held out later: what is seen at one time of day alone would else be either
// never trained on or never judged. Frames between two sections are in neither, as they are nearly those beside them.
const (
	mostRounds = 8
	leastRound = 100 // frames, of which fewer rounds are made if there are not enough
	trainedOn  = 0.6 // of a round
	gap        = 0.05
)

// framesOf is the frames of a split. Sections that are held out are whole blocks, if they are as long as one.
func (f *feed) framesOf(split merging.Split) (frames []picture) {
	rounds := min(max(len(f.frames)/leastRound, 1), mostRounds)
	for r := range rounds {
		round := f.frames[r*len(f.frames)/rounds : (r+1)*len(f.frames)/rounds]
		n := float64(len(round))
		if split == merging.Training {
			frames = append(frames, round[:int(trainedOn*n)]...)
			continue
		}
		section := round[int(trainedOn*n)+int(gap*n) : len(round)-int(gap*n)]
		if blocks := len(section) / blockFrames; blocks > 0 {
			section = section[:blocks*blockFrames]
		}
		frames = append(frames, section...)
	}
	return frames
}

// scale makes of a picture the part of a network's input that it fills.
func scale(p *images.Picture, to *images.Target) picture {
	height, width := to.Inner(to.Height, to.Width, p.Height, p.Width)
	target, err := images.NewTarget(engine.Uint8, []int{1, height, width, 3}, images.Options{Layout: "NHWC"})
	if err != nil {
		panic(err) // an input of bytes takes any picture
	}
	out := picture{height, width, make([]byte, 3*height*width)}
	target.Write(out.rgb, p)
	return out
}

// writeInput makes an input of a picture.
func (p picture) writeInput(to *images.Target) []byte {
	data := make([]byte, to.Bytes(p.height, p.width))
	to.Write(data, images.FromRGB(p.rgb, p.height, p.width))
	return data
}
