package plan

import (
	"slices"
)

// storage is memory of the arena, or a weight.
type storage struct {
	elements    int
	weight      int // of the plan, or -1
	first, last int // the calls between which its content is needed, both included
	off         int64
	into        *storage // whose memory it has; nil: its own
}

// rootStorage is the storage whose memory s has.
func (s *storage) rootStorage() *storage {
	for s.into != nil {
		s = s.into
	}
	return s
}

// view is a tensor in a storage: its first element is off elements into it.
type view struct {
	at            *storage
	off           int
	shape, stride []int
}

// denseStrides are the strides of a tensor that lies in memory by order: dimensions, the last one innermost.
func denseStrides(shape, order []int) []int {
	stride, step := make([]int, len(shape)), 1
	for _, d := range slices.Backward(order) {
		stride[d] = step
		step *= shape[d]
	}
	return stride
}

func rowMajor(shape []int) []int { return denseStrides(shape, numbersBelow(len(shape))) }

// numbersBelow is 0, 1, ... below n.
func numbersBelow(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// orderOf is the order of dimensions by their strides.
func orderOf(stride []int) []int {
	order := numbersBelow(len(stride))
	slices.SortStableFunc(order, func(a, b int) int { return magnitude(stride[b]) - magnitude(stride[a]) })
	return order
}

func magnitude(n int) int { return max(n, -n) }

// reshapeStrides is how elements of a shape and strides lie in another shape; ok is false if no strides tell it.
func reshapeStrides(shape, stride, to []int) (strides []int, ok bool) {
	var from, by []int // without dimensions of 1
	for i, n := range shape {
		if n != 1 {
			from, by = append(from, n), append(by, stride[i])
		}
	}
	strides = make([]int, len(to))
	for i, j := 0, 0; i < len(from) || j < len(to); {
		if j < len(to) && to[j] == 1 {
			j++
			continue
		}
		if i == len(from) || j == len(to) {
			return nil, false
		}
		a, b := from[i], to[j] // products of dimensions that become each other
		i0, j0 := i, j
		for i, j = i+1, j+1; a != b; {
			if a < b {
				if i == len(from) {
					return nil, false
				}
				a *= from[i]
				i++
			} else {
				if j == len(to) {
					return nil, false
				}
				b *= to[j]
				j++
			}
		}
		for k := i0; k+1 < i; k++ {
			if by[k] != by[k+1]*from[k+1] {
				return nil, false
			}
		}
		step := by[i-1]
		for k := j - 1; k >= j0; k-- {
			strides[k] = step
			step *= to[k]
		}
	}
	for k := len(to) - 1; k >= 0; k-- { // dimensions of 1 lie as if dense
		if to[k] == 1 {
			strides[k] = 1
			if k+1 < len(to) {
				strides[k] = strides[k+1] * to[k+1]
			}
		}
	}
	return strides, true
}

// refineShapes is a shape whose dimensions make those of both by being put together; ok is false if there is none.
func refineShapes(a, b []int) (fine []int, ok bool) {
	a, b = slices.Clone(a), slices.Clone(b)
	for len(a) > 0 && len(b) > 0 {
		switch x, y := a[0], b[0]; {
		case x == 1:
			a = a[1:]
		case y == 1:
			b = b[1:]
		case x == y:
			fine, a, b = append(fine, x), a[1:], b[1:]
		case x < y: // of y, x is the outer part
			if y%x != 0 {
				return nil, false
			}
			fine, a, b[0] = append(fine, x), a[1:], y/x
		default:
			if x%y != 0 {
				return nil, false
			}
			fine, b, a[0] = append(fine, y), b[1:], x/y
		}
	}
	return fine, true
}

func (v view) reshape(shape []int) (view, bool) {
	stride, ok := reshapeStrides(v.shape, v.stride, shape)
	return view{v.at, v.off, shape, stride}, ok
}

// permute makes dimension order[i] dimension i; one of -1 is new, and 1.
func (v view) permute(order []int) view {
	p := view{at: v.at, off: v.off}
	for _, d := range order {
		if d < 0 {
			p.shape, p.stride = append(p.shape, 1), append(p.stride, 1)
		} else {
			p.shape, p.stride = append(p.shape, v.shape[d]), append(p.stride, v.stride[d])
		}
	}
	return p
}

// slice is a part of v.
func (v view) slice(start, step, shape []int) view {
	p := view{v.at, v.off, shape, slices.Clone(v.stride)}
	for i := range shape {
		p.off += start[i] * v.stride[i]
		if step != nil {
			p.stride[i] *= step[i]
		}
	}
	return p
}

// partAlong is [from, to) along a dimension.
func (v view) partAlong(d, from, to int) view {
	v.off += from * v.stride[d]
	v.shape = slices.Clone(v.shape)
	v.shape[d] = to - from
	return v
}

// expand broadcasts v.
func (v view) expand(shape []int) view {
	e := view{v.at, v.off, shape, make([]int, len(shape))}
	for i := range v.shape {
		if d := len(shape) - len(v.shape) + i; v.shape[i] == shape[d] {
			e.stride[d] = v.stride[i]
		}
	}
	return e
}

// isSame says whether two views of one shape are of the same elements.
func (v view) isSame(w view) bool {
	if v.at != w.at || v.off != w.off {
		return false
	}
	for i, n := range v.shape {
		if n != 1 && v.stride[i] != w.stride[i] {
			return false
		}
	}
	return true
}

// isDense says whether v lies in memory by these strides.
func (v view) isDense(stride []int) bool {
	for i, n := range v.shape {
		if n != 1 && v.stride[i] != stride[i] {
			return false
		}
	}
	return true
}

// isImage says whether v, [N, spatial..., C], is as the convolutions of kernels.Networks want it: its dimensions nest,
// and channels lie side by side.
func (v view) isImage() bool {
	extent, last := 1, len(v.shape)-1
	for i := last; i >= 0; i-- {
		s := v.stride[i]
		if v.shape[i] > 1 && (s < extent || i == last && s != 1) {
			return false
		}
		if v.shape[i] > 1 {
			extent += s * (v.shape[i] - 1)
		}
	}
	return true
}

func (v view) elementCount() int {
	n := 1
	for _, d := range v.shape {
		n *= d
	}
	return n
}

// foldViews are views of one shape, without dimensions of 1, from the outermost of the first one inwards, and as few as they can be.
func foldViews(views []view) []view {
	order := numbersBelow(len(views[0].shape))
	order = slices.DeleteFunc(order, func(d int) bool { return views[0].shape[d] == 1 })
	slices.SortStableFunc(order, func(a, b int) int {
		return magnitude(views[0].stride[b]) - magnitude(views[0].stride[a])
	})
	out := make([]view, len(views))
	for i, v := range views {
		out[i] = v.permute(order)
	}
	for d := len(order) - 2; d >= 0; d-- {
		if slices.ContainsFunc(out, func(v view) bool { return v.stride[d] != v.stride[d+1]*v.shape[d+1] }) {
			continue
		}
		for i := range out {
			v := &out[i]
			v.shape[d+1] *= v.shape[d]
			v.shape, v.stride = slices.Delete(v.shape, d, d+1), slices.Delete(v.stride, d, d+1)
		}
	}
	if len(out[0].shape) == 0 {
		for i := range out {
			out[i].shape, out[i].stride = []int{1}, []int{1}
		}
	}
	return out
}
