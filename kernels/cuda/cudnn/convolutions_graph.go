package cudnn

// The tensors of a convolution.
const (
	uidInput = 1 + iota
	uidFilter
	uidOutput
	uidBias
	uidBetween // and what follows: never in memory
)

// float is the size of an element. Addresses are multiples of nothing more: rows of an image begin anywhere.
const floatBytes = 4

// describeGraph is the operation graph of a convolution of this geometry.
func describeConvolution(l *Library, k ConvolutionKind, s ConvolutionGeometry) (*Graph, Descriptor) {
	g := l.Begin()
	groupIn := int64(k.In / k.Groups)
	taps := int64(k.Kernel[0]) * int64(k.Kernel[1])
	filter := g.Tensor(Tensor{
		UID: uidFilter, Type: Float, Alignment: floatBytes, Dims: []int64{int64(k.Out), groupIn, int64(k.Kernel[0]), int64(k.Kernel[1])},
		Strides: []int64{taps * groupIn, 1, int64(k.Kernel[1]) * groupIn, groupIn},
	})
	input := g.Tensor(imageTensor(uidInput, s.Images, k.In, s.Input))
	to := imageTensor(uidOutput, s.Images, k.Out, s.Output)
	if k.Backward {
		return g, g.Operations(backwardOperation(g, k, s, input, filter, g.Tensor(to)))
	}
	return g, g.Operations(forwardOperations(g, k, s, input, filter, to)...)
}

// imageTensor is [N, C, H, W] with channels innermost.
func imageTensor(uid int64, images, channels int, m ConvolutionImage) Tensor {
	return Tensor{
		UID: uid, Type: Float, Alignment: floatBytes, Dims: []int64{int64(images), int64(channels), int64(m.Size[0]), int64(m.Size[1])},
		Strides: []int64{int64(m.Next), 1, int64(m.Stride[0]), int64(m.Stride[1])},
	}
}

// convolutionWindow is the convolution's window.
func convolutionWindow(g *Graph, k ConvolutionKind, s ConvolutionGeometry) Descriptor {
	both := func(of [2]int) []int64 { return []int64{int64(of[0]), int64(of[1])} }
	d := g.Make(ConvolutionType)
	g.Kind(d, ConvolutionPrecision, Float)
	g.Kind(d, ConvolutionModeOf, CrossCorrelation)
	g.Ints(d, ConvolutionSpatialDims, 2)
	g.Ints(d, ConvolutionDilations, both(k.Dilations)...)
	g.Ints(d, ConvolutionStrides, both(k.Strides)...)
	g.Ints(d, ConvolutionPrePaddings, both(s.Pre)...)
	g.Ints(d, ConvolutionPostPaddings, both(s.Post)...)
	return g.Finalize(d)
}

// forwardOperations are the convolution and what is fused with it.
func forwardOperations(g *Graph, k ConvolutionKind, s ConvolutionGeometry, input, filter Descriptor, to Tensor) []Descriptor {
	between := to
	between.UID, between.Virtual = uidBetween, true
	next := func(last bool) Descriptor { // where the next operation writes
		if last {
			return g.Tensor(to)
		}
		t := g.Tensor(between)
		between.UID++
		return t
	}
	sum := next(!k.Bias)
	o := g.Make(OperationConvolutionForwardType)
	g.Number(o, ConvolutionForwardAlpha, 1)
	g.Number(o, ConvolutionForwardBeta, 0)
	g.Parts(o, ConvolutionForwardHow, convolutionWindow(g, k, s))
	g.Parts(o, ConvolutionForwardX, input)
	g.Parts(o, ConvolutionForwardW, filter)
	g.Parts(o, ConvolutionForwardY, sum)
	list := []Descriptor{g.Finalize(o)}
	if !k.Bias {
		return list
	}
	channels := int64(k.Out)
	bias := g.Tensor(Tensor{UID: uidBias, Type: Float, Dims: []int64{1, channels, 1, 1}, Strides: []int64{channels, 1, channels, channels}})
	biased := next(!k.ReLU)
	list = append(list, g.Pointwise(Pointwise{Mode: PointwiseAdd, Precision: Float, X: sum, B: bias, Y: biased}))
	if k.ReLU {
		list = append(list, g.Pointwise(Pointwise{Mode: PointwiseRELU, Precision: Float, X: biased, Y: next(true)}))
	}
	return list
}

// backwardOperation is the gradient of the input.
func backwardOperation(g *Graph, k ConvolutionKind, s ConvolutionGeometry, input, filter, output Descriptor) Descriptor {
	o := g.Make(OperationConvolutionBackwardType)
	g.Number(o, ConvolutionBackwardAlpha, 1)
	g.Number(o, ConvolutionBackwardBeta, 0)
	g.Parts(o, ConvolutionBackwardHow, convolutionWindow(g, k, s))
	g.Parts(o, ConvolutionBackwardW, filter)
	g.Parts(o, ConvolutionBackwardDX, input)
	g.Parts(o, ConvolutionBackwardDY, output)
	return g.Finalize(o)
}
