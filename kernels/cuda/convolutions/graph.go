package convolutions

import "github.com/prefillonly/prefillonly/kernels/cuda/cudnn"

// The tensors of a convolution.
const (
	uidInput = 1 + iota
	uidFilter
	uidOutput
	uidBias
	uidVirtual // and what follows: never in memory
)

// float is the size of an element. Addresses are multiples of nothing more: rows of an image begin anywhere.
const float = 4

// describeGraph is the operation graph of a convolution of this geometry.
func describeGraph(l *cudnn.Library, k Kind, s Geometry) (*cudnn.Graph, cudnn.Descriptor) {
	g := l.Begin()
	groupIn := int64(k.In / k.Groups)
	taps := int64(k.Kernel[0]) * int64(k.Kernel[1])
	filter := g.Tensor(cudnn.Tensor{
		UID: uidFilter, Type: cudnn.Float, Alignment: float, Dims: []int64{int64(k.Out), groupIn, int64(k.Kernel[0]), int64(k.Kernel[1])},
		Strides: []int64{taps * groupIn, 1, int64(k.Kernel[1]) * groupIn, groupIn},
	})
	input := g.Tensor(imageTensor(uidInput, s.Images, k.In, s.Input))
	to := imageTensor(uidOutput, s.Images, k.Out, s.Output)
	if k.Backward {
		return g, g.Operations(backwardOperation(g, k, s, input, filter, g.Tensor(to)))
	}
	return g, g.Operations(forward(g, k, s, input, filter, to)...)
}

// imageTensor is [N, C, H, W] with channels innermost.
func imageTensor(uid int64, images, channels int, m Image) cudnn.Tensor {
	return cudnn.Tensor{
		UID: uid, Type: cudnn.Float, Alignment: float, Dims: []int64{int64(images), int64(channels), int64(m.Size[0]), int64(m.Size[1])},
		Strides: []int64{int64(m.Next), 1, int64(m.Stride[0]), int64(m.Stride[1])},
	}
}

// convolutionWindow is the convolution's window.
func convolutionWindow(g *cudnn.Graph, k Kind, s Geometry) cudnn.Descriptor {
	both := func(of [2]int) []int64 { return []int64{int64(of[0]), int64(of[1])} }
	d := g.Make(cudnn.ConvolutionType)
	g.Kind(d, cudnn.ConvolutionPrecision, cudnn.Float)
	g.Kind(d, cudnn.ConvolutionModeOf, cudnn.CrossCorrelation)
	g.Ints(d, cudnn.ConvolutionSpatialDims, 2)
	g.Ints(d, cudnn.ConvolutionDilations, both(k.Dilations)...)
	g.Ints(d, cudnn.ConvolutionStrides, both(k.Strides)...)
	g.Ints(d, cudnn.ConvolutionPrePaddings, both(s.Pre)...)
	g.Ints(d, cudnn.ConvolutionPostPaddings, both(s.Post)...)
	return g.Finalize(d)
}

// forward is the convolution and what is fused with it.
func forward(g *cudnn.Graph, k Kind, s Geometry, input, filter cudnn.Descriptor, to cudnn.Tensor) []cudnn.Descriptor {
	between := to
	between.UID, between.Virtual = uidVirtual, true
	next := func(last bool) cudnn.Descriptor { // where the next operation writes
		if last {
			return g.Tensor(to)
		}
		t := g.Tensor(between)
		between.UID++
		return t
	}
	sum := next(!k.Bias)
	o := g.Make(cudnn.OperationConvolutionForwardType)
	g.Number(o, cudnn.ConvolutionForwardAlpha, 1)
	g.Number(o, cudnn.ConvolutionForwardBeta, 0)
	g.Parts(o, cudnn.ConvolutionForwardHow, convolutionWindow(g, k, s))
	g.Parts(o, cudnn.ConvolutionForwardX, input)
	g.Parts(o, cudnn.ConvolutionForwardW, filter)
	g.Parts(o, cudnn.ConvolutionForwardY, sum)
	list := []cudnn.Descriptor{g.Finalize(o)}
	if !k.Bias {
		return list
	}
	channels := int64(k.Out)
	bias := g.Tensor(cudnn.Tensor{UID: uidBias, Type: cudnn.Float, Dims: []int64{1, channels, 1, 1}, Strides: []int64{channels, 1, channels, channels}})
	biased := next(!k.ReLU)
	list = append(list, g.Pointwise(cudnn.Pointwise{Mode: cudnn.PointwiseAdd, Precision: cudnn.Float, X: sum, B: bias, Y: biased}))
	if k.ReLU {
		list = append(list, g.Pointwise(cudnn.Pointwise{Mode: cudnn.PointwiseRELU, Precision: cudnn.Float, X: biased, Y: next(true)}))
	}
	return list
}

// backwardOperation is the gradient of the input.
func backwardOperation(g *cudnn.Graph, k Kind, s Geometry, input, filter, output cudnn.Descriptor) cudnn.Descriptor {
	o := g.Make(cudnn.OperationConvolutionBackwardType)
	g.Number(o, cudnn.ConvolutionBackwardAlpha, 1)
	g.Number(o, cudnn.ConvolutionBackwardBeta, 0)
	g.Parts(o, cudnn.ConvolutionBackwardHow, convolutionWindow(g, k, s))
	g.Parts(o, cudnn.ConvolutionBackwardW, filter)
	g.Parts(o, cudnn.ConvolutionBackwardDX, input)
	g.Parts(o, cudnn.ConvolutionBackwardDY, output)
	return g.Finalize(o)
}
