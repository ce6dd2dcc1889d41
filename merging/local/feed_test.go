package local

import (
	"testing"

	"github.com/prefillonly/prefillonly/merging"
)

// numbered is a feed of frames that tell their number by their height.
func numbered(frames int) *feed {
	f := &feed{step: 1}
	for i := range frames {
		f.frames = append(f.frames, picture{height: i})
	}
	return f
}

// TestHeldOutFramesAreApart: none is trained on, nor near one that is, and of a clip that is long enough each eighth has frames of both, those held out in blocks.
func TestHeldOutFramesAreApart(t *testing.T) {
	for _, c := range []struct{ frames, rounds int }{{10, 1}, {40, 1}, {250, 2}, {799, 7}, {1394, 8}, {100003, 8}} {
		f := numbered(c.frames)
		trained, held := f.framesOf(merging.Training), f.framesOf(merging.HeldOut)
		if n := float64(c.frames); float64(len(trained)) < .55*n || float64(len(held)) < .2*n {
			t.Errorf("of %d frames %d are trained on and %d held out", c.frames, len(trained), len(held))
		}
		kind := make([]merging.Split, c.frames) // of each frame; those in neither are noisy
		for i := range kind {
			kind[i] = merging.HeldOutNoisy
		}
		for split, frames := range map[merging.Split][]picture{merging.Training: trained, merging.HeldOut: held} {
			for _, p := range frames {
				if kind[p.height] != merging.HeldOutNoisy {
					t.Fatalf("of %d frames number %d is twice", c.frames, p.height)
				}
				kind[p.height] = split
			}
		}
		apart, last, at, sections := int(gap*float64(c.frames/c.rounds)), kind[0], 0, 0
		for i, k := range kind {
			switch {
			case k == merging.HeldOutNoisy:
				continue
			case k != last && i-at <= apart:
				t.Errorf("of %d frames number %d is %d behind one of the other part, want more than %d", c.frames, i, i-at, apart)
			case k != last && k == merging.HeldOut:
				sections++
			}
			last, at = k, i
		}
		if sections != c.rounds {
			t.Errorf("of %d frames %d sections are held out, want %d", c.frames, sections, c.rounds)
		}
		if c.frames > leastRound && len(held)%blockFrames != 0 {
			t.Errorf("%d frames are held out, no whole blocks", len(held))
		}
	}
}
