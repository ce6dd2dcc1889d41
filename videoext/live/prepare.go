package live

import (
	"context"
	"fmt"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/metrics"
	"github.com/prefillonly/prefillonly/videoext/streams"
)

// prepareFrames makes the frames that the network is to see.
func (i *inference) prepareFrames(ctx context.Context, ask streams.Infer, low, high *footage) ([]*media.Frame, error) {
	frames, err := high.selectFrames(ctx, ask.Frames)
	if err != nil {
		return nil, err
	}
	switch how := ask.How.(type) {
	case method.Plain:
		return frames, nil
	case method.Pasted:
		under, err := low.selectFrames(ctx, ask.Frames)
		if err != nil {
			return nil, err
		}
		for k, f := range frames {
			if frames[k], err = i.pasteRegions(ctx, under[k], f, how.Regions[k]); err != nil {
				return nil, err
			}
		}
		return frames, nil
	}
	return nil, fmt.Errorf("the server has no network for %T", ask.How)
}

// Paces of work on frames: for each pixel.
const (
	scalePace  = 3 * time.Nanosecond
	decodePace = 5 * time.Nanosecond
)

// pasteRegions puts regions of a frame of stream B onto the same frame of stream A.
func (i *inference) pasteRegions(ctx context.Context, low, high *media.Frame, regions []videoext.Region) (whole *media.Frame, err error) {
	took, err := i.maker.Turn(ctx, scalePace*time.Duration(high.Width*high.Height), func(scaler *ffmpeg.Scaler) error {
		if whole, err = scaler.Scale(low, high.Width, high.Height); err != nil {
			return err
		}
		if whole == low {
			whole = low.Clone()
		}
		videoext.Paste(whole, high, regions)
		return nil
	})
	i.figure.Spend(metrics.Spent{Scale: took.Processor, Turn: took.Waited})
	return whole, err
}

// maxDecoded is how many bytes the frames of a segment may have.
const maxDecoded = 256 << 20

// decodeSegment makes frames of what a camera sent. What they take is held, and what their decoder takes meanwhile.
func (i *inference) decodeSegment(ctx context.Context, data *media.Segment, held *memoryHold) (frames []*media.Frame, err error) {
	what := fmt.Sprintf("decoding %d frames of %d x %d", len(data.Units), data.Width, data.Height)
	pixels := data.Width * data.Height * len(data.Units)
	bytes := pixels / 2 * 3
	if bytes > maxDecoded {
		return nil, fmt.Errorf("%d frames of %d x %d are %d bytes, the limit is %d", len(data.Units), data.Width, data.Height, bytes, maxDecoded)
	}
	if err := held.Grow(int64(bytes), what); err != nil {
		return nil, err
	}
	decoder := held.from.Hold(held.Owner)
	defer decoder.End()
	if err := decoder.Grow(ffmpeg.DecodeMemory(data), what); err != nil {
		return nil, err
	}
	took, err := i.maker.Turn(ctx, decodePace*time.Duration(pixels), func(*ffmpeg.Scaler) error {
		frames, err = ffmpeg.Decode(ctx, data)
		return err
	})
	i.figure.Spend(metrics.Spent{Decode: took.Processor, Turn: took.Waited})
	return frames, err
}
