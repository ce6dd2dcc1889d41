package spatial

import (
	"math"

	"github.com/prefillonly/prefillonly/engine/dnn/ops/op"
)

// Samplings are operations that read an input between its elements.
var Samplings = map[string]op.Definition{
	"Resize":     op.Define(resize, op.Numbers, 1, 4, 1),
	"GridSample": op.Define(gridSample, op.Floats, 2, 2, 1),
	"RoiAlign":   op.Define(roiAlign, op.Floats, 3, 3, 1),
}

// grid is how a GridSample reads.
type grid struct {
	mode, padding string
	corners       bool
	space         []int
	stride        []int
}

// Grid reads the attributes and the shapes of the image and the points.
func Grid(c *op.Call) (g *grid, d, at []int) {
	g = &grid{
		mode:    c.Word("mode", "linear", "nearest", "cubic"),
		padding: c.Word("padding_mode", "zeros", "border", "reflection"),
		corners: c.Flag("align_corners", false),
	}
	c.Elements(1, op.Floats)
	d, at = c.Ranked(0, 3, 5), c.Dims(1)
	if len(at) != len(d) {
		c.Fail("input has shape %v, grid %v: want as many dimensions", d, at)
	}
	c.Expect(1, append(append([]int{d[0]}, op.Filled(len(d)-2, -1)...), len(d)-2)...)
	if g.mode == "cubic" && len(d) != 4 {
		c.Fail("mode cubic is not supported for input %v: want 4 dimensions", d)
	}
	g.space = d[2:]
	return g, d, at
}

// Read calls f with the elements of the result, those of the image that they are made of, and their weights.
func (g *grid) Read(d, at []int, places []float64, f func(to, from int, weight float64)) {
	g.stride = op.Strides(g.space)
	n, points, each := len(g.space), op.Product(at[1:len(at)-1]), op.Product(g.space)
	for p := range d[0] * points {
		taps := g.pointTaps(places[p*n : (p+1)*n])
		for channel := range d[1] {
			i := p/points*d[1] + channel
			for _, t := range taps {
				f(i*points+p%points, i*each+t.index, t.weight)
			}
		}
	}
}

func gridSample(c *op.Call) {
	g, d, at := Grid(c)
	c.Shaped(0, append([]int{d[0], d[1]}, at[1:len(at)-1]...)...)
	c.OnFloats(func(in [][]float64) []float64 {
		y := make([]float64, op.Product(c.Out[0].Shape))
		g.Read(d, at, in[1], func(to, from int, weight float64) { y[to] += weight * in[0][from] })
		return y
	})
}

type sampleTap struct {
	index  int
	weight float64
}

// pointTaps are those of a point, whose coordinates go from -1 to 1, the last dimension first.
func (g *grid) pointTaps(point []float64) []sampleTap {
	out := []sampleTap{{0, 1}}
	for k, n := range g.space {
		x := point[len(point)-1-k]
		if x = (x + 1) / 2 * float64(n-1); !g.corners {
			x = ((point[len(point)-1-k]+1)*float64(n) - 1) / 2
		}
		var next []sampleTap
		for _, a := range g.tapsAlong(x, n) {
			for _, b := range out {
				next = append(next, sampleTap{b.index + a.index*g.stride[k], b.weight * a.weight})
			}
		}
		out = next
	}
	return out
}

// tapsAlong are the taps at place x of n entries.
func (g *grid) tapsAlong(x float64, n int) []sampleTap {
	if g.mode != "cubic" {
		x = g.padPlace(x, n)
	}
	if math.IsNaN(x) || math.Abs(x) > 1e9 {
		return nil
	}
	if g.mode == "nearest" {
		return g.appendEntry(nil, int(math.RoundToEven(x)), n, 1)
	}
	first, last, kernel := 0, 1, triangleKernel
	if g.mode == "cubic" {
		first, last, kernel = -1, 2, func(x float64) float64 { return cubicKernel(x, -0.75) }
	}
	var out []sampleTap
	base := int(math.Floor(x))
	for k := base + first; k <= base+last; k++ {
		out = g.appendEntry(out, k, n, kernel(float64(k)-x))
	}
	return out
}

// appendEntry adds entry k, which may lie outside.
func (g *grid) appendEntry(taps []sampleTap, k, n int, weight float64) []sampleTap {
	if k < 0 || k >= n {
		if g.padding == "zeros" || n == 0 {
			return taps
		}
		k = min(max(int(math.RoundToEven(g.padPlace(float64(k), n))), 0), n-1)
	}
	return append(taps, sampleTap{k, weight})
}

// padPlace brings a place outside of n entries inside.
func (g *grid) padPlace(x float64, n int) float64 {
	switch least, most := -0.5, float64(n)-0.5; {
	case g.padding == "zeros":
		return x
	case g.padding == "border":
		return op.Clamp(x, 0, float64(n-1))
	case g.corners:
		return reflectBetween(x, 0, float64(n-1))
	default:
		return reflectBetween(x, least, most)
	}
}

// reflectBetween folds x at two ends until it lies between them.
func reflectBetween(x, least, most float64) float64 {
	span := most - least
	if span <= 0 {
		return least
	}
	x = math.Mod(math.Abs(x-least), 2*span)
	return least + min(x, 2*span-x)
}

// region is how a RoiAlign reads.
type region struct {
	rows, columns, sampling int
	scale, shift            float64
	largest                 bool
}

func roiAlign(c *op.Call) {
	r := &region{
		rows: c.Int("output_height", 1), columns: c.Int("output_width", 1), sampling: c.Int("sampling_ratio", 0),
		scale: c.Float("spatial_scale", 1), largest: c.Word("mode", "avg", "max") == "max",
	}
	if c.Word("coordinate_transformation_mode", "half_pixel", "output_half_pixel") == "half_pixel" {
		r.shift = 0.5
	}
	if min(r.rows, r.columns) < 1 || max(r.rows, r.columns) > 1<<16 || r.sampling < 0 || r.sampling > 1<<10 {
		c.Fail("invalid output_height %d, output_width %d or sampling_ratio %d", r.rows, r.columns, r.sampling)
	}
	c.Same(1)
	c.Elements(2, op.Indices)
	d, rois := c.Ranked(0, 4, 4), c.Ranked(1, 2, 2)
	c.Expect(1, -1, 4)
	c.Expect(2, rois[0])
	c.Shaped(0, rois[0], d[1], r.rows, r.columns)
	c.OnFloats(func(in [][]float64) []float64 {
		var y []float64
		each := d[2] * d[3]
		for i := range rois[0] {
			image := c.Place(int64(in[2][i]), d[0])
			bins := r.sampleBins(c, in[1][i*4:(i+1)*4], d[2], d[3])
			for channel := range d[1] {
				x := in[0][(image*d[1]+channel)*each:][:each]
				for _, bin := range bins {
					y = append(y, r.binValue(bin, x))
				}
			}
		}
		return y
	})
}

// sampleBins are the sample points of each output of a region, a point being up to four taps.
func (r *region) sampleBins(c *op.Call, roi []float64, h, w int) [][][]sampleTap {
	var corner [4]float64
	for i, v := range roi {
		if corner[i] = v*r.scale - r.shift; !(math.Abs(corner[i]) < 1e6) {
			c.Fail("invalid region coordinate %g: want below 1e6 of the feature map", v)
		}
	}
	width, height := corner[2]-corner[0], corner[3]-corner[1]
	if r.shift == 0 {
		width, height = max(width, 1), max(height, 1)
	}
	stepY, stepX := height/float64(r.rows), width/float64(r.columns)
	pointsY, pointsX := r.sampling, r.sampling
	if r.sampling == 0 {
		pointsY, pointsX = int(math.Ceil(stepY)), int(math.Ceil(stepX))
	}
	if pointsY > 1<<10 || pointsX > 1<<10 {
		c.Fail("%d by %d samples for each output, want at most 1024 by 1024", pointsY, pointsX)
	}
	var out [][][]sampleTap
	for bin := range r.rows * r.columns {
		var points [][]sampleTap
		for iy := range max(pointsY, 0) {
			for ix := range max(pointsX, 0) {
				y := corner[1] + (float64(bin/r.columns)+(float64(iy)+0.5)/float64(pointsY))*stepY
				x := corner[0] + (float64(bin%r.columns)+(float64(ix)+0.5)/float64(pointsX))*stepX
				points = append(points, bilinearTaps(y, x, h, w))
			}
		}
		out = append(out, points)
	}
	return out
}

// bilinearTaps are the taps of a point; none of one that lies more than an entry outside.
func bilinearTaps(y, x float64, h, w int) []sampleTap {
	if h == 0 || w == 0 || y < -1 || y > float64(h) || x < -1 || x > float64(w) {
		return nil
	}
	y, x = op.Clamp(y, 0, float64(h-1)), op.Clamp(x, 0, float64(w-1))
	y0, x0 := int(y), int(x)
	y1, x1 := min(y0+1, h-1), min(x0+1, w-1)
	fy, fx := y-float64(y0), x-float64(x0)
	return []sampleTap{
		{y0*w + x0, (1 - fy) * (1 - fx)}, {y0*w + x1, (1 - fy) * fx}, {y1*w + x0, fy * (1 - fx)}, {y1*w + x1, fy * fx},
	}
}

// binValue is the mean of a bin's points or, as ONNX Runtime has it, the largest of their weighted taps. Points outside are 0.
func (r *region) binValue(bin [][]sampleTap, x []float64) float64 {
	total, best := 0.0, math.Inf(-1)
	for _, point := range bin {
		for _, t := range point {
			v := t.weight * x[t.index]
			total += v
			best = max(best, v)
		}
		if len(point) == 0 {
			best = max(best, 0)
		}
	}
	if r.largest {
		if math.IsInf(best, -1) {
			return 0
		}
		return best
	}
	return total / float64(max(len(bin), 1))
}
