package spatial

import (
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/op"
)

// Taps are how a Resize makes the entries of one dimension: output o is the sum of Weight[i] times input Index[i]
// for i from Start[o] to Start[o+1].
type Taps struct {
	Axis         int
	Start, Index []int
	Weight       []float64
	Outside      []bool // outputs that lie outside of the input and have the extrapolation value; nil: none
}

// resizing is what a Resize does, as far as it is known.
type resizing struct {
	mode, coordinates, nearest string
	antialias, excludeOutside  bool
	cubic, extrapolation       float64
	axes                       []int
	sized                      bool      // by sizes, not by scales
	scales                     []float64 // of each axis
	from, to                   []float64 // the region of interest of each axis
	Shape                      []int
}

// ResizeTaps are those of each dimension that a Resize of a known shape changes, to be applied one after another. ok
// is false if that is not all: outputs outside of the input have a value of their own.
func ResizeTaps(n *graph.Node) (taps []Taps, ok bool, err error) {
	c := &op.Call{Node: n, In: n.In, Limit: op.MaxElements}
	err = c.Attempt(func() {
		if n.Op != "Resize" {
			c.Fail("not a Resize")
		}
		Samplings[n.Op].Check(c, len(n.Out))
		r, known := Resizing(c)
		if !known {
			c.Fail("scales or sizes are not constant")
		}
		for _, a := range r.axes {
			if min(c.Dims(0)[a], r.Shape[a]) < 0 {
				c.Fail("dimension %d of %v is unknown", a, c.Dims(0))
			}
			if max(c.Dims(0)[a], r.Shape[a]) > 1<<24 {
				c.Fail("dimension %d of %v would become %d", a, c.Dims(0), r.Shape[a])
			}
		}
		ok = true
		for _, t := range r.Taps(c.Dims(0)) {
			ok = ok && t.Outside == nil
			taps = append(taps, t)
		}
	})
	return taps, ok, err
}

func resize(c *op.Call) {
	r, ok := Resizing(c)
	if !ok {
		c.Shaped(0, op.Filled(len(c.Dims(0)), -1)...)
		return
	}
	c.Shaped(0, r.Shape...)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		d := c.Dims(0)
		x, shape := in[0].Floats(), slices.Clone(d)
		taps := r.Taps(d)
		for _, t := range taps {
			x = t.Apply(x, shape)
			shape[t.Axis] = len(t.Start) - 1
		}
		for _, t := range taps {
			t.extrapolate(x, shape, r.extrapolation)
		}
		if !graph.Floating(in[0].Type) && r.mode != "nearest" {
			op.Mapped(math.RoundToEven, x)
		}
		return op.One(c.Floats(0, x))
	}
}

// Resizing reads what a Resize does. Its result is not known before its scales or sizes are.
func Resizing(c *op.Call) (r *resizing, known bool) {
	d := c.Dims(0)
	r = &resizing{
		mode: c.Word("mode", "nearest", "linear", "cubic"),
		coordinates: c.Word("coordinate_transformation_mode", "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
			"align_corners", "asymmetric", "tf_crop_and_resize"),
		nearest:        c.Word("nearest_mode", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
		antialias:      c.Flag("antialias", false),
		excludeOutside: c.Flag("exclude_outside", false),
		cubic:          c.Float("cubic_coeff_a", -0.75),
		extrapolation:  c.Float("extrapolation_value", 0),
	}
	if r.antialias && r.coordinates == "tf_crop_and_resize" {
		c.Fail("antialias 1 is not supported with tf_crop_and_resize")
	}
	policy := c.Word("keep_aspect_ratio_policy", "stretch", "not_larger", "not_smaller")
	axes, given := c.List("axes")
	if !given {
		axes = op.Indexed(len(d), func(i int) int { return i })
	}
	r.axes = c.Dimensions("attribute axes", axes, len(d))
	r.Shape = slices.Clone(d)
	for _, a := range r.axes {
		if d[a] < 0 {
			r.Shape[a] = -1
		}
	}
	if !readRegions(c, r) {
		return r, false
	}
	if c.Has(2) == c.Has(3) {
		c.Fail("want one of scales and sizes")
	}
	if c.Has(2) {
		return r, byScales(c, r)
	}
	return r, bySizes(c, r, policy)
}

// numbersOf are the elements of a constant input, one for each axis.
func numbersOf(c *op.Call, i, want int) (values []float64, ok bool) {
	c.Elements(i, op.Numbers)
	t := c.In[i].Const
	if t == nil {
		return nil, false
	}
	c.CheckData([]*graph.Tensor{t})
	if t.Len() != want {
		c.Fail("input %d has %d elements, want %d", i, t.Len(), want)
	}
	return t.Floats(), true
}

// readRegions reads the region of interest, which is used in one mode.
func readRegions(c *op.Call, r *resizing) (ok bool) {
	n := len(r.axes)
	r.from, r.to = op.Filled(n, 0.0), op.Filled(n, 1.0)
	if r.coordinates != "tf_crop_and_resize" {
		return true
	}
	if !c.Has(1) {
		c.Fail("missing region of interest (roi): tf_crop_and_resize needs it")
	}
	roi, ok := numbersOf(c, 1, 2*n)
	if ok {
		r.from, r.to = roi[:n], roi[n:]
	}
	return ok
}

func byScales(c *op.Call, r *resizing) (ok bool) {
	d := c.Dims(0)
	if r.scales, ok = numbersOf(c, 2, len(r.axes)); !ok {
		return false
	}
	for i, a := range r.axes {
		s := r.scales[i]
		if !(s > 0) || s*float64(max(d[a], 1)) > float64(c.Limit) {
			c.Fail("invalid scales %v: want positive ones, and a size of at most %d", r.scales, c.Limit)
		}
		if d[a] >= 0 {
			// In float32, as others do: 0.7 of 10 is 7.
			r.Shape[a] = int(float32(d[a]) * float32(s) * float32(r.to[i]-r.from[i]))
		} else if s == 1 && r.coordinates != "tf_crop_and_resize" {
			r.Shape[a] = d[a]
		}
		if r.Shape[a] < -1 || r.Shape[a] == 0 && d[a] > 0 || r.Shape[a] > 0 && d[a] == 0 {
			c.Fail("dimension %d of %v would become %d", a, d, r.Shape[a])
		}
	}
	return true
}

func bySizes(c *op.Call, r *resizing, policy string) (ok bool) {
	d := c.Dims(0)
	sizes, ok := numbersOf(c, 3, len(r.axes))
	if !ok {
		return false
	}
	r.sized, r.scales = true, make([]float64, len(sizes))
	for i, a := range r.axes {
		if sizes[i] < 0 || sizes[i] > float64(c.Limit) || (sizes[i] == 0) != (d[a] == 0) && d[a] >= 0 {
			c.Fail("invalid sizes %v for input %v", sizes, d)
		}
		r.Shape[a] = int(sizes[i])
		if r.scales[i] = 1; d[a] > 0 {
			r.scales[i] = sizes[i] / float64(d[a])
		}
		if d[a] < 0 && policy != "stretch" {
			return false
		}
	}
	if policy == "stretch" || len(sizes) == 0 {
		return true
	}
	scale := slices.Min(r.scales)
	if policy == "not_smaller" {
		scale = slices.Max(r.scales)
	}
	for i, a := range r.axes {
		size := math.Floor(scale*float64(d[a]) + 0.5)
		if size > float64(c.Limit) {
			c.Fail("invalid sizes %v for input %v", sizes, d)
		}
		r.Shape[a], r.scales[i] = int(size), scale
	}
	return true
}

// Taps are those of the dimensions that change.
func (r *resizing) Taps(d []int) []Taps {
	var out []Taps
	for i, a := range r.axes {
		if d[a] == 0 || r.Shape[a] == d[a] && r.scales[i] == 1 && r.coordinates != "tf_crop_and_resize" {
			continue
		}
		t := Taps{Axis: a, Start: []int{0}}
		for o := range r.Shape[a] {
			x := r.place(i, o, d[a], r.Shape[a])
			if r.coordinates == "tf_crop_and_resize" && (x < 0 || x > float64(d[a]-1)) {
				if t.Outside == nil {
					t.Outside = make([]bool, r.Shape[a])
				}
				t.Outside[o] = true
			}
			r.appendTaps(&t, x, r.scales[i], d[a])
			t.Start = append(t.Start, len(t.Index))
		}
		out = append(out, t)
	}
	return out
}

// place is where in an axis of n entries output o of m lies.
func (r *resizing) place(i, o, n, m int) float64 {
	x, scale := float64(o), r.scales[i]
	exact := scale * float64(n) // the size that the scale tells
	switch r.coordinates {
	case "align_corners":
		if m == 1 {
			return 0
		}
		// As ONNX has it, with the fraction of a size that a scale tells.
		if r.sized {
			exact = float64(m)
		}
		return x * float64(n-1) / (exact - 1)
	case "asymmetric":
		return x / scale
	case "pytorch_half_pixel":
		if m == 1 {
			return 0
		}
		return (x+0.5)/scale - 0.5
	case "half_pixel_symmetric":
		adjustment := float64(m) / exact
		center := float64(n) / 2
		return center*(1-adjustment) + (x+0.5)/scale - 0.5
	case "tf_crop_and_resize":
		if m == 1 {
			return (r.from[i] + r.to[i]) * float64(n-1) / 2
		}
		return r.from[i]*float64(n-1) + x*(r.to[i]-r.from[i])*float64(n-1)/float64(m-1)
	}
	return (x+0.5)/scale - 0.5
}

// appendTaps appends the taps of an output at place x of n entries.
func (r *resizing) appendTaps(t *Taps, x, scale float64, n int) {
	if r.mode == "nearest" {
		t.addTap(min(max(r.roundPlace(x), 0), n-1), 1)
		return
	}
	if x = min(max(x, -1e9), 1e9); math.IsNaN(x) {
		x = 0
	}
	// Below 1, antialias widens the kernel so that every input has its part.
	stretch := 1.0
	if r.antialias && scale < 1 {
		stretch = 1 / scale
	}
	reach, kernel := 1.0, triangleKernel
	if r.mode == "cubic" {
		reach, kernel = 2, func(x float64) float64 { return cubicKernel(x, r.cubic) }
	}
	first, last := int(math.Floor(x-reach*stretch))+1, int(math.Ceil(x+reach*stretch))-1
	if r.excludeOutside {
		first, last = max(first, 0), min(last, n-1)
	}
	total, from := 0.0, len(t.Index)
	for k := first; k <= last; k++ {
		weight := kernel((float64(k) - x) / stretch)
		total += weight
		t.addTap(min(max(k, 0), n-1), weight)
	}
	if (r.excludeOutside || r.antialias) && total != 0 {
		for i := from; i < len(t.Weight); i++ {
			t.Weight[i] /= total
		}
	}
}

// addTap adds a weight to an input; to the last one, if it is the same.
func (t *Taps) addTap(index int, weight float64) {
	if n := len(t.Index); n > t.Start[len(t.Start)-1] && t.Index[n-1] == index {
		t.Weight[n-1] += weight
		return
	}
	if weight != 0 {
		t.Index, t.Weight = append(t.Index, index), append(t.Weight, weight)
	}
}

func triangleKernel(x float64) float64 { return max(0, 1-math.Abs(x)) }

// cubicKernel is the convolution kernel of Keys (1981) with the parameter a.
func cubicKernel(x, a float64) float64 {
	switch x = math.Abs(x); {
	case x <= 1:
		return (a+2)*x*x*x - (a+3)*x*x + 1
	case x < 2:
		return a*x*x*x - 5*a*x*x + 8*a*x - 4*a
	}
	return 0
}

func (r *resizing) roundPlace(x float64) int {
	switch r.nearest {
	case "round_prefer_ceil":
		x = math.Floor(x + 0.5)
	case "floor":
		x = math.Floor(x)
	case "ceil":
		x = math.Ceil(x)
	default:
		x = math.Ceil(x - 0.5)
	}
	return int(min(max(x, -1), 1e9))
}

// Apply makes x, of this shape, that with the axis resized.
func (t *Taps) Apply(x []float64, shape []int) []float64 {
	outer, n, inner := op.Around(shape, t.Axis)
	m := len(t.Start) - 1
	y := make([]float64, outer*m*inner)
	for o := range outer {
		for k := range m {
			to := y[(o*m+k)*inner:][:inner]
			for i := t.Start[k]; i < t.Start[k+1]; i++ {
				from, weight := x[(o*n+t.Index[i])*inner:][:inner], t.Weight[i]
				for j := range to {
					to[j] += weight * from[j]
				}
			}
		}
	}
	return y
}

// extrapolate sets outputs outside of the input.
func (t *Taps) extrapolate(x []float64, shape []int, value float64) {
	if t.Outside == nil {
		return
	}
	outer, n, inner := op.Around(shape, t.Axis)
	for row := range outer * n {
		if t.Outside[row%n] {
			op.Mapped(func(float64) float64 { return value }, x[row*inner:][:inner])
		}
	}
}
