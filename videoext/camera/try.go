package camera

import (
	"context"

	"github.com/prefillonly/prefillonly/internal/osthread"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
)

// tryTask encodes a segment in some ways, and decodes it as the server would see it.
type tryTask struct {
	method.Try
	frames []*media.Frame
	rate   float64
}

func (t *tryTask) keepsFrames() []*media.Frame { return t.frames }

func (t *tryTask) runTask(ctx context.Context, w *worker) (out outcome) {
	since := osthread.Time()
	out.segment = t.Segment
	defer addProcessorTime(&since, &out.took.Try)
	answer := method.Tried{Segment: t.Segment}
	shown, against, err := t.tryVariant(ctx, w, &t.Against, nil)
	for i := range t.Variants {
		if err != nil {
			break
		}
		var trial method.Trial
		_, trial, err = t.tryVariant(ctx, w, &t.Variants[i], shown)
		answer.Trials = append(answer.Trials, trial)
	}
	if answer.Against = against; err != nil {
		answer.Trials = nil
	}
	out.event = answer
	return out
}

// tryVariant is what the segment is like, encoded in a way. Against is nil of the one that others are compared with.
func (t *tryTask) tryVariant(ctx context.Context, w *worker, v *method.Variant, against []*media.Frame) (shown []*media.Frame, trial method.Trial, err error) {
	e := encodeTask{Encode: method.Encode{Segment: t.Segment, Frames: v.Frames, Settings: v.Settings}, rate: t.rate}
	for _, n := range v.Frames {
		e.frames = append(e.frames, t.frames[n])
	}
	segment, err := e.encodeFrames(ctx, w, new(Times))
	if err != nil {
		return nil, trial, err
	}
	file, err := ffmpeg.MP4(segment)
	if err != nil {
		return nil, trial, err
	}
	frames, err := ffmpeg.Decode(ctx, segment)
	if err != nil {
		return nil, trial, err
	}
	if shown, err = oneadapt.Shown(frames, v.Frames, len(t.frames), t.frames[0], w.scaler.Scale); err != nil {
		return nil, trial, err
	}
	if against == nil {
		against = shown
	}
	trial.Bytes = len(file)
	trial.Changes, err = oneadapt.Changes(t.Gradient, against, shown, t.Parts)
	return shown, trial, err
}
