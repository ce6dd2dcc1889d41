// Package videoext is the vocabulary of video analytics: parts of frames, and what is found in them.
package videoext

import (
	"fmt"

	"github.com/prefillonly/prefillonly/videoext/media"
)

// Detection is a thing found in a frame.
type Detection struct {
	Region
	Class int
	Score float32 // 0 to 1
}

// Proposal is a part of a frame that may hold a thing, whatever it is.
type Proposal struct {
	Region
	Objectness float32 // 0 to 1
}

// Mask says of a frame, divided into equal rectangles in rows from the top, of which class each is.
type Mask struct {
	Width, Height int
	Class         []uint8
	Margin        []uint8 // by how much the class is the best: 255 times the difference of the two greatest probabilities. May be nil
}

// Findings are what a network says of a frame. Networks of pixels give a mask alone, others no mask.
type Findings struct {
	Detections []Detection // the best score first
	Proposals  []Proposal  // the best first; of those who were asked for them
	Mask       *Mask
}

// Scaled is the size that a frame of a width and a height is encoded in at a scale: even, and at least one macroblock each
// way.
func Scaled(width, height int, scale float64) (w, h int) {
	even := func(n int) int { return max(media.MacroblockSize, int(float64(n)*scale/2+1e-9)*2) }
	return even(width), even(height)
}

// Focus is the map of an encoded frame of width x height pixels in which macroblocks that regions touch have one quantiser, and
// the others another one.
func Focus(regions []Region, width, height int, inside, outside uint8) *media.QPMap {
	m := media.NewQPMap(width, height, outside)
	for _, r := range regions {
		m.Set(r.Pixels(width, height), inside)
	}
	return m
}

// Quality is how all of a frame is encoded.
type Quality struct {
	QP    int
	Scale float64 // of the width and height, above 0 and at most 1
}

func (q Quality) String() string { return fmt.Sprintf("%d at %g", q.QP, q.Scale) }

// Check says what is wrong with a quality.
func (q Quality) Check() error {
	if q.QP < 0 || q.QP > media.MaxQP || !(q.Scale > 0 && q.Scale <= 1) {
		return fmt.Errorf("quality %v: the QP is to be 0 to %d, and the scale above 0 and at most 1", q, media.MaxQP)
	}
	return nil
}

// Settings are those of frames of a size in this quality.
func (q Quality) Settings(width, height int) media.Settings {
	width, height = Scaled(width, height, q.Scale)
	return media.Settings{Width: width, Height: height, Quality: media.QP(q.QP)}
}
