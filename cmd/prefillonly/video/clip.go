package video

import (
	"context"
	"io"
	"time"

	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/pipe"
	"github.com/prefillonly/prefillonly/videoext/scene"
)

// clipWidth and Height are those of the frames, in pixels.
const clipWidth, clipHeight = 640, 360

const clipGroup = 10 // frames of a segment

// Drawing is a street as a clip shows it.
type Drawing struct {
	Seed   uint64
	Frames int
	Step   time.Duration // of the street, from each frame to the next
}

// WriteClip draws streets, one after the other, and has the camera's program encode them, well, as a clip of so many frames a second. Time
// goes on over all of them: a street begins as late as the one before it ends.
func WriteClip(ctx context.Context, program string, w io.Writer, rate int, drawings ...Drawing) error {
	encoder, err := pipe.Start(ctx, program)
	if err != nil {
		return err
	}
	defer encoder.Close()
	settings := media.Settings{Rate: float64(rate), Quality: media.CRF(14), Preset: "veryfast"}
	var segments []*media.Segment
	drawn := 0
	for _, d := range drawings {
		street := scene.New(clipWidth, clipHeight, d.Seed)
		for end := drawn + d.Frames; drawn < end; {
			frames := make([]*media.Frame, min(clipGroup, end-drawn))
			for i := range frames {
				frames[i], _ = street.Frame(time.Duration(drawn) * d.Step)
				drawn++
			}
			segment, err := encoder.Encode(ctx, frames, settings)
			if err != nil {
				return err
			}
			segments = append(segments, segment)
		}
	}
	return media.WriteIVF(w, clipWidth, clipHeight, rate, segments)
}
