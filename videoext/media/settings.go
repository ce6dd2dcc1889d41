package media

import (
	"fmt"
	"slices"
	"strings"
)

// Quality says how finely frames are quantised: QP, CRF or Maps.
type Quality interface {
	// check says what is wrong for so many frames of so many pixels.
	check(frames, width, height int) error
}

// QP is x264's constant quantiser, that of P frames, as `ffmpeg -qp` has it: I frames are finer by IPRatio, and B
// frames coarser by PBRatio. 0 is lossless.
type QP uint8

// CRF is x264's constant rate factor, 0 to 51: a constant perceived quality.
type CRF float64

// Maps give each macroblock its quantiser, exactly, in frames of every type: one map for all frames, or one for each.
// Of neighbours whose quantisers differ by just 1 the encoder gives the right one that of the left.
type Maps []*QPMap

func (q QP) check(int, int, int) error {
	if q > MaxQP {
		return fmt.Errorf("quantiser %d is not 0 to %d", q, MaxQP)
	}
	return nil
}

func (c CRF) check(int, int, int) error {
	if !(c >= 0 && c <= MaxQP) {
		return fmt.Errorf("rate factor %v is not 0 to %d", float64(c), MaxQP)
	}
	return nil
}

func (m Maps) check(frames, width, height int) error {
	if len(m) != 1 && len(m) != frames {
		return fmt.Errorf("%d QP maps are given for %d frames: one for all or one for each is right", len(m), frames)
	}
	for _, q := range m {
		if err := q.Check(width, height); err != nil {
			return err
		}
	}
	return nil
}

// Of is the map of a frame.
func (m Maps) ForFrame(frame int) *QPMap {
	if len(m) == 1 {
		return m[0]
	}
	return m[frame]
}

// Settings say how frames become a Segment. Rate and Quality are required.
type Settings struct {
	Width, Height int     // of what is encoded, even; 0: the frames'
	Rate          float64 // frames in a second
	Quality       Quality
	Preset        string  // of x264, by the time it takes; empty: DefaultPreset
	BFrames       int     // at most so many in a row, 0 (none) to 16
	BBias         int     // likelihood of B frames, -100 to 100 (x264's b-bias)
	IPRatio       float64 // quantisers of P frames by those of I frames; 0: 1.4. ffmpeg's i_qfactor is 1 by it
	PBRatio       float64 // quantisers of B frames by those of P frames; 0: 1.3. ffmpeg's b_qfactor
	ChromaOffset  int     // added to the quantisers of chroma, -12 to 12
}

// DefaultPreset is x264's own.
const DefaultPreset = "medium"

// presets are x264's, the fastest first.
var presets = []string{"ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow", "placebo"}

// Check says what is wrong with the settings for so many frames of so many pixels, before scaling.
func (s *Settings) Check(frames, width, height int) error {
	width, height = s.Size(width, height)
	if err := CheckSize(width, height); err != nil {
		return err
	}
	_, mapped := s.Quality.(Maps)
	switch {
	case frames < 1 || frames > MaxFrames:
		return fmt.Errorf("%d frames are to be encoded: a segment has 1 to %d", frames, MaxFrames)
	case width%2 != 0 || height%2 != 0:
		return fmt.Errorf("frames are to be encoded at %d x %d pixels, and both must be even", width, height)
	case !(s.Rate > 0 && s.Rate <= 1000):
		return fmt.Errorf("a rate of %v frames in a second is not above 0 and at most 1000", s.Rate)
	case s.Quality == nil:
		return fmt.Errorf("the settings have no quality: QP, CRF or Maps")
	case s.Preset != "" && !slices.Contains(presets, s.Preset):
		return fmt.Errorf("invalid preset %q: want one of %s", s.Preset, strings.Join(presets, ", "))
	case s.BFrames < 0 || s.BFrames > 16:
		return fmt.Errorf("%d B frames in a row are not 0 to 16", s.BFrames)
	case s.BBias < -100 || s.BBias > 100:
		return fmt.Errorf("a bias of %d to B frames is not -100 to 100", s.BBias)
	case !isValidRatio(s.IPRatio) || !isValidRatio(s.PBRatio):
		return fmt.Errorf("ratios of quantisers %v and %v are not 0.1 to 10", s.IPRatio, s.PBRatio)
	case mapped && (s.IPRatio != 0 || s.PBRatio != 0):
		return fmt.Errorf("QP maps are exact in frames of every type, and ratios of quantisers are given, too")
	case s.ChromaOffset < -12 || s.ChromaOffset > 12:
		return fmt.Errorf("an offset of %d for chroma is not -12 to 12", s.ChromaOffset)
	}
	return s.Quality.check(frames, width, height)
}

func isValidRatio(r float64) bool { return r == 0 || r >= 0.1 && r <= 10 }

// SummaryCells is how many cells a Summary has at most each way.
const SummaryCells = 32

// Summary is how finely the last frame is quantised, as a map of one cell or Coarse; nil: that is left to the encoder.
func (s *Settings) Summary() *QPMap {
	switch q := s.Quality.(type) {
	case QP:
		return &QPMap{Columns: 1, Rows: 1, QP: []uint8{uint8(q)}}
	case Maps:
		return q[len(q)-1].Coarse(SummaryCells)
	}
	return nil
}

// Size is that of what is encoded of frames of a size.
func (s *Settings) Size(width, height int) (int, int) {
	if s.Width != 0 {
		width = s.Width
	}
	if s.Height != 0 {
		height = s.Height
	}
	return width, height
}
