package vjp

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// filterGrad is the gradient of a convolution's weights of a shape, given that of its output, g; k is where the kernel goes over the
// input x. It is a product of the gradient and of what the taps read; of outputs of one input each, the sum of products for each tap.
func (w writer) filterGrad(k *window, x, g *value, shape []int) *value {
	n, places, inputs := x.Shape[0], graph.Elements(g.Shape[2:]), shape[1]
	groups := x.Shape[1] / inputs
	outputs := shape[0] / groups
	apart := w.reshape(g, []int{n, groups, outputs, places})
	taps := w.tapsOf(k, x, g)
	for i, read := range taps {
		taps[i] = w.reshape(read, []int{n, groups, inputs, places})
		if inputs == 1 {
			sum := w.Op("ReduceSum", attrs{"keepdims": int64(0)}, w.mul(apart, taps[i]), w.integerVector(0, 3))
			taps[i] = w.reshape(sum, []int{shape[0], inputs, 1})
		}
	}
	read := taps[0]
	if len(taps) > 1 {
		read = w.Op("Concat", attrs{"axis": int64(2)}, taps...)
	}
	if inputs > 1 {
		rows := w.reshape(w.transpose(apart, []int64{1, 2, 0, 3}), []int{groups, outputs, n * places})
		columns := w.reshape(w.transpose(read, []int64{1, 0, 3, 2}), []int{groups, n * places, len(taps) * inputs})
		product := w.Op("MatMul", nil, rows, columns)
		read = w.transpose(w.reshape(product, []int{shape[0], len(taps), inputs}), []int64{0, 2, 1})
	}
	return w.reshape(read, shape)
}

// tapsOf are what each tap of a kernel, row-major, reads of x: as many elements as small has.
func (w writer) tapsOf(k *window, x, small *value) []*value {
	dims := len(k.kernel)
	pads, axes := make([]int64, 2*dims), numbersBelow(dims + 2)[2:]
	padded := false
	for i := range dims {
		pads[i] = k.before[i]
		pads[i+dims] = max(0, k.coveredSize(i, small)-k.before[i]-int64(x.Shape[i+2]))
		padded = padded || pads[i]+pads[i+dims] > 0
	}
	if padded {
		x = w.Op("Pad", nil, x, w.integerVector(pads...), nil, w.integerVector(axes...))
	}
	taps := make([]*value, graph.Elements(toInts(k.kernel)))
	for tap := range taps {
		starts, ends := make([]int64, dims), make([]int64, dims)
		for i, rest := dims-1, int64(tap); i >= 0; i-- {
			starts[i] = rest % k.kernel[i] * k.dilations[i]
			ends[i] = starts[i] + int64(small.Shape[i+2]-1)*k.strides[i] + 1
			rest /= k.kernel[i]
		}
		taps[tap] = x
		if !slices.Equal(x.Shape[2:], small.Shape[2:]) {
			taps[tap] = w.Op("Slice", nil, x, w.integerVector(starts...), w.integerVector(ends...), w.integerVector(axes...), w.integerVector(k.strides...))
		}
	}
	return taps
}

// channelSum is the sum of each channel.
func (w writer) channelSum(g *value) *value {
	axes := append([]int64{0}, spatialAxes(g)...)
	return w.Op("ReduceSum", attrs{"keepdims": int64(0)}, g, w.integerVector(axes...))
}
