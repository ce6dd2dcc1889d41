// Package spatial has the operations on images and volumes: convolutions, pools, and what reads between elements.
package spatial

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/op"
)

// Window is where the kernel of a convolution or a pooling stands, dimension by dimension of space: output o reads,
// with its tap k, the input at o*Strides - Before + k*Dilations. Of ConvTranspose it is the other way around: input o
// adds there to the output. Entries of Before and After that are -1 depend on dimensions that are not known.
type Window struct {
	Kernel, Strides, Dilations []int
	Before, After              []int // padding
	Out                        []int // of the result, without channels
}

// WindowOf is that of a Conv, ConvTranspose, MaxPool, AveragePool or LpPool.
func WindowOf(n *graph.Node) (w Window, err error) {
	windows := map[string]func(*op.Call) Window{
		"Conv": convWindow, "ConvTranspose": transposedWindow,
		"MaxPool": PoolWindow, "AveragePool": PoolWindow, "LpPool": PoolWindow,
	}
	c := &op.Call{Node: n, In: n.In, Limit: op.MaxElements}
	err = c.Attempt(func() {
		of, ok := windows[n.Op]
		if !ok {
			c.Fail("operation has no window")
		}
		if d, ok := Convolutions[n.Op]; ok {
			d.Check(c, len(n.Out))
		} else {
			Pools[n.Op].Check(c, len(n.Out))
		}
		w = of(c)
	})
	return w, err
}

// kernelExtent is how much of the input a kernel spans.
func (w *Window) kernelExtent(i int) int { return (w.Kernel[i]-1)*w.Dilations[i] + 1 }

// readWindow reads the attributes of a window with this kernel. Before and After are explicit padding.
func readWindow(c *op.Call, kernel []int) Window {
	n := len(kernel)
	w := Window{Kernel: kernel, Before: make([]int, n), After: make([]int, n), Out: make([]int, n)}
	w.Strides = perDimension(c, "strides", n, 1)
	w.Dilations = perDimension(c, "dilations", n, 1)
	checkPositive(c, "kernel", kernel)
	checkPositive(c, "attribute strides", w.Strides)
	checkPositive(c, "attribute dilations", w.Dilations)
	pads, ok := c.List("pads")
	if ok && len(pads) != 2*n {
		c.Fail("invalid attribute pads %v: want two values for each of %d dimensions", pads, n)
	}
	for i, p := range pads {
		if p < 0 || p > c.Limit {
			c.Fail("invalid attribute pads %v: want values of 0 or more", pads)
		}
		if i < n {
			w.Before[i] = p
		} else {
			w.After[i-n] = p
		}
	}
	return w
}

// perDimension is an attribute with an entry for each of n dimensions.
func perDimension(c *op.Call, name string, n, fallback int) []int {
	v, ok := c.List(name)
	if !ok {
		return op.Filled(n, fallback)
	}
	if len(v) != n {
		c.Fail("invalid attribute %s %v: want %d values", name, v, n)
	}
	return v
}

func checkPositive(c *op.Call, what string, values []int) {
	for _, v := range values {
		if v < 1 || v > 1<<24 {
			c.Fail("invalid %s %v: want values from 1 to %d", what, values, 1<<24)
		}
	}
}

// setPadding sets padding, where it follows from sizes, and the sizes of the output.
func setPadding(c *op.Call, w *Window, space []int, up bool) {
	auto := c.Word("auto_pad", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
	for i, n := range space {
		same := auto == "SAME_UPPER" || auto == "SAME_LOWER"
		if auto != "NOTSET" {
			w.Before[i], w.After[i] = 0, 0
		}
		if n < 0 {
			if w.Out[i] = -1; same {
				w.Before[i], w.After[i] = -1, -1
			}
			continue
		}
		if same {
			w.Out[i] = (n + w.Strides[i] - 1) / w.Strides[i]
			w.dividePadding(i, max((w.Out[i]-1)*w.Strides[i]+w.kernelExtent(i)-n, 0), auto == "SAME_UPPER")
			continue
		}
		room := n + w.Before[i] + w.After[i] - w.kernelExtent(i)
		if room < 0 {
			c.Fail("spatial dimension %d has %d elements and padding of %d and %d, want at least the kernel's %d", i, n, w.Before[i], w.After[i], w.kernelExtent(i))
		}
		w.Out[i] = room/w.Strides[i] + 1
		// A window that is not all inside must at least begin there.
		if up && room%w.Strides[i] > 0 && w.Out[i]*w.Strides[i] < n+w.Before[i] {
			w.Out[i]++
		}
	}
}

// dividePadding divides padding between both sides; what is left over goes after (upper) or before.
func (w *Window) dividePadding(i, total int, upper bool) {
	w.Before[i] = total / 2
	if !upper {
		w.Before[i] = total - total/2
	}
	w.After[i] = total - w.Before[i]
}

// kernelOf is the kernel of weights, which attribute kernel_shape may repeat.
func kernelOf(c *op.Call, weight []int) []int {
	kernel := slices.Clone(weight[2:])
	if given, ok := c.List("kernel_shape"); ok {
		if len(given) != len(kernel) {
			c.Fail("invalid attribute kernel_shape %v: weights have shape %v", given, weight)
		}
		for i, k := range given {
			if kernel[i] < 0 {
				kernel[i] = k
			}
			if kernel[i] != k {
				c.Fail("invalid attribute kernel_shape %v: weights have shape %v", given, weight)
			}
		}
	}
	if !op.Known(kernel) {
		panic(op.Unknown{})
	}
	return kernel
}

// space3 is three dimensions of space, of which those that are not there have one entry.
func space3(space []int, fill int) [3]int {
	out := [3]int{fill, fill, fill}
	copy(out[3-len(space):], space)
	return out
}

// Window3 is a window over three dimensions.
type Window3 struct {
	kernel, strides, dilations, before, after, out, in [3]int
}

func (w *Window) toWindow3(space []int) Window3 {
	return Window3{
		kernel: space3(w.Kernel, 1), strides: space3(w.Strides, 1), dilations: space3(w.Dilations, 1),
		before: space3(w.Before, 0), after: space3(w.After, 0), out: space3(w.Out, 1), in: space3(space, 1),
	}
}

// isPointwise says whether every output is of the input at its own place, so that space may as well be one row.
func (w *Window) isPointwise() bool {
	for i := range w.Kernel {
		if w.Kernel[i] != 1 || w.Strides[i] != 1 || w.Before[i] != 0 || w.After[i] != 0 {
			return false
		}
	}
	return true
}

// outputRange is the range of outputs, of n, whose tap k lies inside of m inputs, and the input of output 0.
func (w *Window3) outputRange(i, k, n, m int) (from, to, first int) {
	first = k*w.dilations[i] - w.before[i]
	s := w.strides[i]
	if first < 0 {
		from = (-first + s - 1) / s
	}
	if m-1 >= first {
		to = min((m-1-first)/s+1, n)
	}
	return from, max(to, from), first
}
