package spatial

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/op"
)

// Columns are operations between images and the columns that windows over them are.
var Columns = map[string]op.Definition{
	"AffineGrid": op.Define(affineGrid, op.Floats, 2, 2, 1),
	"Col2Im":     op.Define(columnsToImage, op.Floats, 3, 3, 1),
	"DeformConv": op.Define(deformConv, op.Floats, 3, 5, 1),
}

// affineGrid makes the points that GridSample reads of affine maps from an output's places.
func affineGrid(c *op.Call) {
	theta := c.Ranked(0, 3, 3)
	corners := c.Flag("align_corners", false)
	size, ok := c.Ints(1)
	if !ok {
		return
	}
	n := len(size) - 2
	if n < 2 || n > 3 || slices.Min(size) < 1 {
		c.Fail("invalid size %v: want 4 or 5 positive dimensions", size)
	}
	c.Expect(0, size[0], n, n+1)
	c.Shaped(0, slices.Concat([]int{theta[0]}, size[2:], []int{n})...)
	c.OnFloats(func(in [][]float64) []float64 {
		points := op.Product(size[2:])
		y := make([]float64, 0, size[0]*points*n)
		for i := range size[0] * points {
			at := elementCoordinates(i%points, size[2:])
			for row := range n {
				m := in[0][(i/points*n+row)*(n+1):][:n+1]
				v := m[n]
				for k := range n { // the last dimension of space first
					v += m[k] * gridPlace(at[n-1-k], size[len(size)-1-k], corners)
				}
				y = append(y, v)
			}
		}
		return y
	})
}

// gridPlace is where entry i of n lies when they go from -1 to 1: their centres, or their outer edges.
func gridPlace(i, n int, corners bool) float64 {
	switch {
	case !corners:
		return float64(2*i+1)/float64(n) - 1
	case n == 1:
		return 0
	}
	return 2*float64(i)/float64(n-1) - 1
}

// columnsToImage adds the columns of windows over an image at the places that they are of.
func columnsToImage(c *op.Call) {
	d := c.Ranked(0, 3, 3)
	space, ok := c.Ints(1)
	block, ok2 := c.Ints(2)
	if !ok || !ok2 {
		return
	}
	if len(space) < 1 || len(space) > 3 || len(block) != len(space) || slices.Min(space) < 0 {
		c.Fail("invalid image %v and block %v: want 1 to 3 dimensions of both", space, block)
	}
	c.CheckShape("image", space)
	w := readWindow(c, block)
	setPadding(c, &w, space, false)
	c.CheckShape("block", block)
	c.CheckShape("blocks", w.Out)
	taps := op.Product(block)
	if d[1]%taps > 0 || d[2] >= 0 && d[2] != op.Product(w.Out) {
		c.Fail("input 0 has shape %v: image %v has %d blocks of %d elements", d, space, op.Product(w.Out), taps)
	}
	channels := op.Over(d[1], taps)
	c.Shaped(0, append([]int{d[0], channels}, space...)...)
	c.OnFloats(func(in [][]float64) []float64 {
		over, each := w.toWindow3(space), op.Product(space)
		y := make([]float64, op.Product(c.Out[0].Shape))
		for i := range d[0] * channels {
			image, columns := y[i*each:(i+1)*each], in[0][i*taps*d[2]:][:taps*d[2]]
			over.eachRow(func(to, from, k int) {
				for j := range over.kernel[2] {
					first, last, at := over.outputRange(2, j, over.out[2], over.in[2])
					for o := first; o < last; o++ {
						image[from+at+o*over.strides[2]] += columns[(k+j)*d[2]+to+o]
					}
				}
			})
		}
		return y
	})
}

// deformConv is a convolution over two dimensions whose taps lie where offsets move them, between the elements, and
// count as much as a mask says. Dai et al., Deformable Convolutional Networks, 2017; and v2, 2018.
func deformConv(c *op.Call) {
	d, weight := c.Ranked(0, 4, 4), c.Ranked(1, 4, 4)
	w := convWindow(c)
	groups, shifts := c.Int("group", 1), c.Int("offset_group", 1)
	if shifts < 1 || d[1] >= 0 && d[1]%shifts > 0 {
		c.Fail("invalid attribute offset_group %d: want a divisor of %d channels", shifts, d[1])
	}
	taps := op.Product(w.Kernel)
	c.Same(1, 2, 3, 4)
	c.Expect(2, d[0], op.Multiple(2*taps, shifts), w.Out[0], w.Out[1])
	if c.Has(3) {
		c.Expect(3, weight[0])
	}
	if c.Has(4) {
		c.Expect(4, d[0], op.Multiple(taps, shifts), w.Out[0], w.Out[1])
	}
	c.Shaped(0, d[0], weight[0], w.Out[0], w.Out[1])
	c.CheckShape("columns", []int{d[1], taps, w.Out[0], w.Out[1]})
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		x, weights, offsets := in[0].Floats(), in[1].Floats(), in[2].Floats()
		mask := op.Filled(len(offsets)/2, 1.0)
		if c.Has(4) {
			mask = in[4].Floats()
		}
		y, out := make([]float64, op.Product(c.Out[0].Shape)), op.Product(w.Out)
		if c.Has(3) {
			bias := in[3].Floats()
			for i := range y {
				y[i] = bias[i/out%weight[0]]
			}
		}
		each := d[1] * d[2] * d[3]
		for n := range d[0] {
			shifted := deformedColumns(w, d, shifts, x[n*each:(n+1)*each], offsets[n*2*taps*shifts*out:], mask[n*taps*shifts*out:])
			for m := range weight[0] {
				row, first := y[(n*weight[0]+m)*out:][:out], m/(weight[0]/groups)*weight[1]*taps
				for k, v := range weights[m*weight[1]*taps:][:weight[1]*taps] {
					for p, column := range shifted[(first+k)*out:][:out] {
						row[p] += v * column
					}
				}
			}
		}
		return op.One(c.Floats(0, y))
	}
}

// deformedColumns are, for each channel and tap, what it reads of an image for each output.
func deformedColumns(w Window, d []int, shifts int, image, offsets, mask []float64) []float64 {
	g := &grid{mode: "linear", padding: "zeros"}
	taps, out, each := op.Product(w.Kernel), op.Product(w.Out), d[2]*d[3]
	columns := make([]float64, d[1]*taps*out)
	perShift := d[1] / shifts
	for i := range shifts * taps * out {
		shift, tap, p := i/out/taps, i/out%taps, i%out
		at := (shift*taps+tap)*2*out + p
		y := float64(p/w.Out[1]*w.Strides[0]-w.Before[0]+tap/w.Kernel[1]*w.Dilations[0]) + offsets[at]
		x := float64(p%w.Out[1]*w.Strides[1]-w.Before[1]+tap%w.Kernel[1]*w.Dilations[1]) + offsets[at+out]
		rows, entries := g.tapsAlong(y, d[2]), g.tapsAlong(x, d[3])
		for channel := shift * perShift; channel < (shift+1)*perShift; channel++ {
			total := 0.0
			for _, r := range rows {
				for _, e := range entries {
					total += r.weight * e.weight * image[channel*each+r.index*d[3]+e.index]
				}
			}
			columns[(channel*taps+tap)*out+p] = total * mask[i]
		}
	}
	return columns
}
