package local

import (
	"bytes"
	"cmp"
	"context"
	"image"
	"image/jpeg"
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn"
	"github.com/prefillonly/prefillonly/engine/dnn/direct"
	"github.com/prefillonly/prefillonly/merging"
	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/accuracy"
	"github.com/prefillonly/prefillonly/videoext/vision"
)

// Difference is a held-out frame with what a model's own file finds there, and what another file of it finds, drawn.
type Difference struct {
	Frame           int     // of those held out
	Score           float64 // of the frame
	Original, Other []byte  // JPEG
}

// Of the frames held out so many are looked at for Differences, and those that are shown are so far apart.
const (
	lookedAt  = 200
	leastGaps = 10
)

// Differences are the frames held out in which another file of a model's network finds least of what the model's own file finds, the worst first.
func Differences(ctx context.Context, m merging.TrainedModel, other string, most int, o Options) ([]Difference, error) {
	s := &session{o: New(o).o, seed: 1}
	defer s.Close()
	if err := s.openModels([]merging.TrainedModel{m}); err != nil {
		return nil, err
	}
	of := s.models[0]
	if err := of.readClip(ctx, s.o.FrameBytes); err != nil {
		return nil, err
	}
	frames, step := of.feed.framesOf(merging.HeldOut), 1
	for ; len(frames) > lookedAt; step *= 2 {
		frames = everySecond(frames)
	}
	var files [2][]*direct.Network // by worker
	for _, w := range s.workers {
		n, err := direct.Open(other, w.backend, dnn.Options{})
		if err != nil {
			return nil, err
		}
		defer n.Close()
		files[0], files[1] = append(files[0], w.originals[0]), append(files[1], n)
	}
	var found [2][]videoext.Findings
	for i := range found {
		var err error
		if found[i], err = s.inferFrame(ctx, of, files[i], frames); err != nil {
			return nil, err
		}
	}
	var shown []Difference
	for _, d := range worst(found[0], found[1], most) {
		for i, to := range []*[]byte{&d.Original, &d.Other} {
			var err error
			if *to, err = of.drawFindings(files[i][0], frames[d.Frame]); err != nil {
				return nil, err
			}
		}
		d.Frame *= step
		shown = append(shown, d)
	}
	return shown, nil
}

func everySecond(frames []picture) (kept []picture) {
	for i := 0; i < len(frames); i += 2 {
		kept = append(kept, frames[i])
	}
	return kept
}

// worst are the frames whose findings differ most, if they differ.
func worst(truth, found []videoext.Findings, most int) (kept []Difference) {
	var all []Difference
	for i := range truth {
		if score := scoreFrame(truth[i], found[i]); score < 1 {
			all = append(all, Difference{Frame: i, Score: score})
		}
	}
	slices.SortStableFunc(all, func(a, b Difference) int { return cmp.Compare(a.Score, b.Score) })
	for _, d := range all {
		near := func(k Difference) bool { return max(k.Frame-d.Frame, d.Frame-k.Frame) < leastGaps }
		if len(kept) < most && !slices.ContainsFunc(kept, near) {
			kept = append(kept, d)
		}
	}
	return kept
}

// scoreFrame is the score of one frame.
func scoreFrame(truth, found videoext.Findings) float64 {
	if truth.Mask == nil {
		return agreement.Count(truth.Detections, found.Detections).F1()
	}
	var o accuracy.Overlaps
	o.Count(truth.Mask, found.Mask)
	return o.MeanIoU(leastShare)
}

// drawFindings draws what a network finds in a frame.
func (m *model) drawFindings(network *direct.Network, p picture) ([]byte, error) {
	outputs, err := network.Run(m.shape, p.writeInput(m.input))
	if err != nil {
		return nil, err
	}
	r, err := m.decodeFindings(outputs, p)
	if err != nil {
		return nil, err
	}
	r.Detections = slices.DeleteFunc(r.Detections, func(d vision.Detection) bool { return d.Score < agreement.Found })
	plain := image.NewRGBA(image.Rect(0, 0, p.width, p.height))
	for i := range p.height * p.width {
		copy(plain.Pix[4*i:], p.rgb[3*i:][:3])
		plain.Pix[4*i+3] = 255
	}
	var out bytes.Buffer
	err = jpeg.Encode(&out, vision.Draw(plain, &r), &jpeg.Options{Quality: 80})
	return out.Bytes(), err
}
