package combine

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"sort"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/op"
)

// Searches are operations whose results are places of elements, or elements found by their values.
var Searches = map[string]op.Definition{
	"ArgMax":            op.Define(argExtreme(1), op.Numbers, 1, 1, 1),
	"ArgMin":            op.Define(argExtreme(-1), op.Numbers, 1, 1, 1),
	"TopK":              op.Define(topK, op.Numbers, 2, 2, 2),
	"NonZero":           op.Define(nonZero, op.Anything, 1, 1, 1),
	"Unique":            op.Define(unique, op.Anything, 1, 1, 4),
	"NonMaxSuppression": op.Define(nonMaxSuppression, op.Floats, 2, 5, 1),
}

// elementOrder compares the elements of a tensor by their places. NaN is above all.
func elementOrder(t *graph.Tensor) func(i, j int) int {
	if graph.Floating(t.Type) {
		x := t.Floats()
		return func(i, j int) int {
			switch a, b := x[i], x[j]; {
			case a != a || b != b:
				return cmp.Compare(op.Truth[int64](a != a), op.Truth[int64](b != b))
			default:
				return cmp.Compare(a, b)
			}
		}
	}
	x := t.Ints()
	if t.Type == engine.Uint64 {
		return func(i, j int) int { return cmp.Compare(uint64(x[i]), uint64(x[j])) }
	}
	return func(i, j int) int { return cmp.Compare(x[i], x[j]) }
}

// argExtreme finds the largest elements, or the smallest for a sign of -1.
func argExtreme(sign int) func(*op.Call) {
	return func(c *op.Call) {
		keep, last := c.Flag("keepdims", true), c.Flag("select_last_index", false)
		c.Typed(0, engine.Int64)
		d := c.Ranked(0, 1, math.MaxInt)
		axis := c.Axis("axis", 0, len(d))
		c.Shaped(0, reducedShape(d, []int{axis}, keep)...)
		c.Run = func(in []*graph.Tensor) []*graph.Tensor {
			if d[axis] == 0 && op.Product(c.Out[0].Shape) > 0 {
				c.Fail("no elements to search along dimension %d of %v", axis, d)
			}
			if in[0].Type == engine.FP32 && axis == len(d)-1 && sign > 0 && !last {
				return op.One(graph.FromInts(engine.Int64, c.Out[0].Shape, greatestOfRows(in[0].Data, d[axis])))
			}
			compare, l := elementOrder(in[0]), op.LanesOf(d, []int{axis})
			var out []int64
			for _, start := range l.Starts {
				best := 0
				for k := range l.Steps {
					if o := sign * compare(start+l.Steps[k], start+l.Steps[best]); o > 0 || o == 0 && last {
						best = k
					}
				}
				out = append(out, int64(best))
			}
			return op.One(graph.FromInts(engine.Int64, c.Out[0].Shape, out[:op.Product(c.Out[0].Shape)]))
		}
	}
}

// greatestOfRows is where rows of so many FP32 are greatest, in elementOrder: networks that recognize symbols have many thousand in a row.
func greatestOfRows(data []byte, columns int) (out []int64) {
	for row := 4 * columns; row > 0 && len(data) > 0; data = data[row:] {
		best, greatest := 0, math.Float32frombits(binary.LittleEndian.Uint32(data))
		for k := 1; k < columns; k++ {
			if v := math.Float32frombits(binary.LittleEndian.Uint32(data[4*k:])); v > greatest || v != v && greatest == greatest {
				best, greatest = k, v
			}
		}
		out = append(out, int64(best))
	}
	return out
}

func topK(c *op.Call) {
	sign := 1
	if c.Flag("largest", true) {
		sign = -1
	}
	sorted := c.Flag("sorted", true)
	c.Typed(1, engine.Int64)
	d := c.Ranked(0, 1, math.MaxInt)
	axis := c.Axis("axis", -1, len(d))
	k := -1
	if given, ok := c.Ints(1); ok {
		if len(given) != 1 || given[0] < 0 || d[axis] >= 0 && given[0] > d[axis] {
			c.Fail("invalid K %v: want one number from 0 to %d", given, d[axis])
		}
		k = given[0]
	}
	shape := slices.Clone(d)
	shape[axis] = k
	for i := range c.Out {
		c.Shaped(i, shape...)
	}
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		compare, from, to := elementOrder(in[0]), op.LanesOf(d, []int{axis}), op.LanesOf(shape, []int{axis})
		values, index := c.New(0), make([]int64, op.Product(shape))
		size := in[0].Type.Size()
		for i := range min(len(to.Starts), len(from.Starts)) {
			best := op.Indexed(d[axis], func(k int) int { return k })
			slices.SortFunc(best, func(a, b int) int {
				return cmp.Or(sign*compare(from.Starts[i]+from.Steps[a], from.Starts[i]+from.Steps[b]), cmp.Compare(a, b))
			})
			if best = best[:k]; !sorted {
				slices.Sort(best)
			}
			for j, b := range best {
				at, source := to.Starts[i]+to.Steps[j], from.Starts[i]+from.Steps[b]
				copy(values.Data[at*size:(at+1)*size], in[0].Data[source*size:])
				index[at] = int64(b)
			}
		}
		out := op.One(values)
		if len(c.Out) > 1 {
			out = append(out, graph.FromInts(engine.Int64, shape, index))
		}
		return out
	}
}

func nonZero(c *op.Call) {
	c.Typed(0, engine.Int64)
	d := c.Dims(0)
	c.Shaped(0, len(d), -1)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		var found []int
		for i, v := range in[0].Floats() {
			if v != 0 {
				found = append(found, i)
			}
		}
		out := make([]int64, 0, len(d)*len(found))
		for _, stride := range op.Strides(d) {
			for _, i := range found {
				out = append(out, int64(i/max(stride, 1)))
			}
		}
		for k := range d {
			for i := range found {
				out[k*len(found)+i] %= int64(d[k])
			}
		}
		return op.One(graph.FromInts(engine.Int64, []int{len(d), len(found)}, out))
	}
}

func unique(c *op.Call) {
	sorted := c.Flag("sorted", true)
	for i := 1; i < len(c.Out); i++ {
		c.Typed(i, engine.Int64)
	}
	d, axis := c.Dims(0), 0
	if _, ok := c.Node.Attrs["axis"]; ok {
		axis = c.Axis("axis", 0, len(d))
	} else {
		d = []int{op.Product(d)}
	}
	shape := slices.Clone(d)
	shape[axis] = -1
	for i := range c.Out {
		c.Shaped(i, -1)
	}
	c.Shaped(0, shape...)
	if len(c.Out) > 2 {
		c.Shaped(2, d[axis])
	}
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		t := in[0].Reshaped(d...)
		groups, of := distinctEntries(t, axis)
		if !sorted { // in the order in which they are first met
			rank := make([]int64, len(groups))
			by := op.Indexed(len(groups), func(i int) int { return i })
			slices.SortFunc(by, func(a, b int) int { return groups[a][0] - groups[b][0] })
			reordered := make([][]int, len(groups))
			for to, from := range by {
				reordered[to], rank[from] = groups[from], int64(to)
			}
			groups, of = reordered, op.Mapped(func(g int64) int64 { return rank[g] }, of)
		}
		var first []int
		var counts, firsts []int64
		for _, g := range groups {
			first, firsts, counts = append(first, g[0]), append(firsts, int64(g[0])), append(counts, int64(len(g)))
		}
		return []*graph.Tensor{op.Taken(t, axis, first, nil), graph.Vector(firsts...), graph.Vector(of...), graph.Vector(counts...)}[:len(c.Out)]
	}
}

// distinctEntries are the places of equal entries along an axis, in the order of their values, and the group of each place.
func distinctEntries(t *graph.Tensor, axis int) (groups [][]int, of []int64) {
	_, n, _ := op.Around(t.Shape, axis)
	compare, stride := elementOrder(t), op.Strides(t.Shape)[axis]
	starts := op.LanesOf(t.Shape, []int{axis}).Starts
	entries := func(a, b int) int {
		for _, s := range starts {
			if o := compare(s+a*stride, s+b*stride); o != 0 {
				return o
			}
		}
		return 0
	}
	by := op.Indexed(n, func(i int) int { return i })
	sort.SliceStable(by, func(i, j int) bool { return entries(by[i], by[j]) < 0 })
	of = make([]int64, n)
	for i, k := range by {
		if i == 0 || entries(by[i-1], k) != 0 {
			groups = append(groups, nil)
		}
		g := len(groups) - 1
		groups[g], of[k] = append(groups[g], k), int64(g)
	}
	return groups, of
}

// box is by its corners.
type box struct{ y0, x0, y1, x1 float64 }

func nonMaxSuppression(c *op.Call) {
	centers := c.Flag("center_point_box", false)
	c.Typed(0, engine.Int64)
	c.Shaped(0, -1, 3)
	c.Same(1)
	d, scores := c.Ranked(0, 3, 3), c.Ranked(1, 3, 3)
	c.Expect(0, scores[0], scores[2], 4)
	for i := 2; i < 5; i++ {
		if c.Has(i) {
			c.Scalar(i)
		}
	}
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		at := func(i int, fallback float64) float64 {
			if c.Has(i) {
				return in[i].Floats()[0]
			}
			return fallback
		}
		s := suppression{most: int(min(max(at(2, 0), 0), float64(d[1]))), overlap: at(3, 0), score: at(4, math.Inf(-1)), any: !c.Has(4)}
		out := []int64{}
		boxes, x := in[0].Floats(), in[1].Floats()
		for image := range d[0] {
			corners := boxesOf(boxes[image*d[1]*4:(image+1)*d[1]*4], centers)
			for class := range scores[1] {
				for _, k := range s.keptBoxes(corners, x[(image*scores[1]+class)*d[1]:][:d[1]]) {
					out = append(out, int64(image), int64(class), int64(k))
				}
			}
		}
		return op.One(graph.FromInts(engine.Int64, []int{len(out) / 3, 3}, out))
	}
}

func boxesOf(x []float64, centers bool) []box {
	out := make([]box, len(x)/4)
	for i := range out {
		a, b, c, d := x[4*i], x[4*i+1], x[4*i+2], x[4*i+3]
		if out[i] = (box{min(a, c), min(b, d), max(a, c), max(b, d)}); centers {
			out[i] = box{b - d/2, a - c/2, b + d/2, a + c/2}
		}
	}
	return out
}

func (b box) area() float64 { return (b.y1 - b.y0) * (b.x1 - b.x0) }

// intersectionOverUnion is how much of their union two boxes have in common.
func (b box) intersectionOverUnion(o box) float64 {
	common := max(0, min(b.y1, o.y1)-max(b.y0, o.y0)) * max(0, min(b.x1, o.x1)-max(b.x0, o.x0))
	if common <= 0 {
		return 0
	}
	return common / (b.area() + o.area() - common)
}

// suppression keeps at most so many boxes of a class, of those above a score, that do not overlap a better one.
type suppression struct {
	most           int
	overlap, score float64
	any            bool // whatever the score
}

func (s suppression) keptBoxes(boxes []box, scores []float64) []int {
	var by, kept []int
	for i, v := range scores {
		if s.any || v > s.score {
			by = append(by, i)
		}
	}
	slices.SortFunc(by, func(a, b int) int { return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(a, b)) })
	for _, i := range by {
		if len(kept) == s.most {
			break
		}
		if !slices.ContainsFunc(kept, func(k int) bool { return boxes[k].intersectionOverUnion(boxes[i]) > s.overlap }) {
			kept = append(kept, i)
		}
	}
	return kept
}
