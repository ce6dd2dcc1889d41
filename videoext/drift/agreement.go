package drift

import (
	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/accuracy"
)

// Agreement is how far two networks agree about a frame: Agreeing / Findings is F1.
type Agreement struct {
	Agreeing float64
	Findings float64 // of both networks; 0: neither found anything
}

// agrees is when two boxes of a class are the same thing, as merging counts it.
var agrees = accuracy.Rule{IoU: 0.5}

// Agree compares what the original finds in a frame with what the changed network does. A mask counts as much as a crowd, by its pixels: of one frame alone the mean IoU of
// classes, which a merge is judged by, would be that of the few pixels of rare ones.
func Agree(original, changed *videoext.Findings) Agreement {
	if original.Mask != nil {
		return Agreement{mostFindings * accuracy.SamePixels(original.Mask, changed.Mask), mostFindings}
	}
	c := agrees.Count(original.Detections, changed.Detections)
	return Agreement{float64(2 * c.Right), float64(2*c.Right + c.Wrong + c.Missed)}
}
