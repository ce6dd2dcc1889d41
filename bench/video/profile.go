package video

import (
	"fmt"
	"math"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/emulate"
	"github.com/prefillonly/prefillonly/videoext/methods"
)

const (
	filterTarget     = 0.9 // the accuracy that Reducto's published evaluation asks for
	filterThresholds = 40  // that are tried
)

// ProfileFilter learns on the first third of a clip, in segments of so many frames, how much frames may differ from the last that was sent, as Reducto
// does beforehand; what that costs is not counted, as in the paper. Accuracy is held against what the network finds in all frames.
func ProfileFilter(tools emulate.Tools, clip *emulate.Clip, frames int, r Rules) (*methods.FilterProfile, error) {
	part := *clip
	part.Frames = part.Frames[:profileFrames(clip)]
	truth, err := emulate.NewLab(tools, &part).Truth()
	if err != nil {
		return nil, err
	}
	p := &methods.FilterProfile{Target: filterTarget}
	differences := make([]float64, len(part.Frames))
	for i := range differences[1:] {
		differences[i+1] = tools.Differ(methods.FilterFeature, part.Frames[i], part.Frames[i+1])
		p.Longest = max(p.Longest, differences[i+1])
	}
	if p.Longest == 0 {
		return nil, fmt.Errorf("%s: the first %d frames do not differ: cannot learn a filter", clip.Name, len(part.Frames))
	}
	thresholds := make([]float64, filterThresholds)
	for i := range thresholds {
		thresholds[i] = p.Longest * float64(frames) * float64(i+1) / filterThresholds
	}
	r.DDS.Truth = r.DDS.Found // so that all frames have an F1 of 1
	for from := 0; from < len(truth); from += frames {
		to := min(from+frames, len(truth))
		segment := differences[from:to:to]
		if len(segment) < 2 {
			break
		}
		segment[0] = math.Inf(1) // it is sent in any case
		p.Learn(segment, thresholds, func(sent []int) float64 {
			f1, _ := r.f1Scores(truth[from:to], heldFindings(truth[from:to], sent))
			return f1
		})
	}
	if len(p.Examples) == 0 {
		return nil, fmt.Errorf("%s: %d frames are too few to learn a filter", clip.Name, len(part.Frames))
	}
	return p, nil
}

// heldFindings is what is known of each frame when only some are looked at, of which 0 is one: that of the last one.
func heldFindings(all []videoext.Findings, sent []int) []videoext.Findings {
	known := make([]videoext.Findings, len(all))
	for i := range known {
		if len(sent) > 1 && sent[1] == i {
			sent = sent[1:]
		}
		known[i] = all[sent[0]]
	}
	return known
}
