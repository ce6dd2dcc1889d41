package vision

import "github.com/prefillonly/prefillonly/videoext"

// Findings are the result in parts of the picture, whose size this is.
func (r *Result) Findings(picture Size) videoext.Findings {
	relative := func(b Box) videoext.Region {
		w, h := float32(picture.Width), float32(picture.Height)
		return videoext.Region{X0: b.X0 / w, Y0: b.Y0 / h, X1: b.X1 / w, Y1: b.Y1 / h}
	}
	var f videoext.Findings
	for _, d := range r.Detections {
		f.Detections = append(f.Detections, videoext.Detection{Region: relative(d.Box), Class: d.Class, Score: d.Score})
	}
	for _, p := range r.Proposals {
		f.Proposals = append(f.Proposals, videoext.Proposal{Region: relative(p.Box), Objectness: p.Objectness})
	}
	if m := r.Mask; m != nil {
		f.Mask = &videoext.Mask{Width: m.Width, Height: m.Height, Class: m.Class, Margin: m.Margin}
	}
	return f
}
