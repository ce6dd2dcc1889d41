package methods

import (
	"cmp"
	"slices"

	"github.com/prefillonly/prefillonly/videoext"
)

// splitDetections are the sure detections of a frame in low quality, and the regions to be asked for (section 3.1.2).
func (c *DDS) splitDetections(f *videoext.Findings) (sure []videoext.Detection, regions []videoext.Region) {
	if f.Mask != nil {
		return nil, c.unsureRegions(f.Mask)
	}
	var weak []videoext.Detection
	for _, d := range c.joinDetections(c.wantedDetections(f.Detections)) {
		if d.Score > c.Sure {
			sure = append(sure, d)
		} else {
			weak = append(weak, d)
		}
	}
	ask := func(r videoext.Region) {
		same := func(d videoext.Detection) bool { return d.IoU(r) > c.SameIoU }
		if a := r.Area(); a > 0 && a <= c.Largest && !slices.ContainsFunc(sure, same) {
			regions = append(regions, r.Grow(c.Enlarge))
		}
	}
	if c.Weak {
		for _, d := range weak {
			ask(d.Region)
		}
	}
	for _, p := range f.Proposals {
		if p.Objectness >= c.Objectness {
			ask(p.Region)
		}
	}
	return sure, distinctRegions(regions)
}

// distinctRegions leaves out regions that are in others.
func distinctRegions(all []videoext.Region) (kept []videoext.Region) {
	for i, r := range all {
		inside := func(j int) bool {
			s := all[j]
			return r.Intersect(s) == r && (r != s || j < i)
		}
		covered := false
		for j := range all {
			covered = covered || j != i && inside(j)
		}
		if !covered {
			kept = append(kept, r)
		}
	}
	return kept
}

// holdRegions asks for each frame's regions in so many frames before and after, too.
func holdRegions(regions [][]videoext.Region, frames int) [][]videoext.Region {
	if frames == 0 {
		return regions
	}
	held := make([][]videoext.Region, len(regions))
	for i := range held {
		near := regions[max(i-frames, 0):min(i+frames+1, len(regions))]
		held[i] = distinctRegions(slices.Concat(near...))
	}
	return held
}

// joinDetections makes one of detections that overlap, if the configuration says so.
func (c *DDS) joinDetections(all []videoext.Detection) []videoext.Detection {
	if c.JoinIoU == 0 {
		return all
	}
	all = slices.DeleteFunc(slices.Clone(all), func(d videoext.Detection) bool { return d.Score < c.JoinScore })
	return videoext.Merge(all, c.JoinIoU)
}

// combineFindings is what was found in a frame, of both streams. Stream B was pasted onto stream A, so its mask is of all, too.
func (c *DDS) combineFindings(low, high *videoext.Findings) videoext.Findings {
	if high.Mask != nil {
		return videoext.Findings{Mask: high.Mask}
	}
	all := c.wantedDetections(high.Detections)
	for _, d := range c.wantedDetections(low.Detections) {
		same := func(h videoext.Detection) bool { return h.Class == d.Class && h.IoU(d.Region) > c.Duplicate }
		if d.Score > c.Sure && !slices.ContainsFunc(high.Detections, same) {
			all = append(all, d)
		}
	}
	all = c.joinDetections(all)
	slices.SortStableFunc(all, func(a, b videoext.Detection) int { return cmp.Compare(b.Score, a.Score) })
	return videoext.Findings{Detections: all}
}

// lowFindings is what was found in a frame of stream A alone.
func (c *DDS) lowFindings(low *videoext.Findings) videoext.Findings {
	return videoext.Findings{Detections: c.joinDetections(c.wantedDetections(low.Detections)), Mask: low.Mask}
}

// maskGrid is how many parts the frame has each way when unsure pixels are looked for: about the macroblocks of a frame of 720 lines
// for the longer side.
const maskGrid = 64

// unsureRegions are regions of a mask whose pixels' margins are small: the parts of a grid in which enough of them are, joined along rows, and rows
// of the same extent with each other.
func (c *DDS) unsureRegions(m *videoext.Mask) (regions []videoext.Region) {
	if len(m.Margin) != m.Width*m.Height || m.Width < 1 || m.Height < 1 {
		return nil
	}
	columns, rows := min(maskGrid, m.Width), min(maskGrid, m.Height)
	var open []videoext.Region // those of the row above
	for y := range rows {
		var row []videoext.Region
		for x := 0; x < columns; x++ {
			if !c.unsurePart(m, x, y, columns, rows) {
				continue
			}
			from := x
			for x+1 < columns && c.unsurePart(m, x+1, y, columns, rows) {
				x++
			}
			row = append(row, videoext.Region{
				X0: float32(from) / float32(columns), X1: float32(x+1) / float32(columns),
				Y0: float32(y) / float32(rows), Y1: float32(y+1) / float32(rows),
			})
		}
		for i, r := range row {
			above := func(o videoext.Region) bool { return o.X0 == r.X0 && o.X1 == r.X1 }
			if k := slices.IndexFunc(open, above); k >= 0 {
				row[i].Y0 = open[k].Y0
				open = slices.Delete(open, k, k+1)
			}
		}
		regions = append(regions, open...)
		open = row
	}
	return append(regions, open...)
}

// unsurePart says whether enough pixels of one part of the grid have small margins.
func (c *DDS) unsurePart(m *videoext.Mask, x, y, columns, rows int) bool {
	n, few := 0, 0
	for py := y * m.Height / rows; py < (y+1)*m.Height/rows; py++ {
		for px := x * m.Width / columns; px < (x+1)*m.Width/columns; px++ {
			if n++; float32(m.Margin[py*m.Width+px]) < c.Margin*255 {
				few++
			}
		}
	}
	return float32(few) > c.Share*float32(n)
}
