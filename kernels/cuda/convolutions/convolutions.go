// Package convolutions computes convolutions of images in float32 by cuDNN, and keeps their plans.
//
// It has not run on a GPU yet: how fast this is, and whether the real library gives a row the same bits whatever is
// beside it, is not known. `make check-cudnn` has the real library choose engines and compile plans without a GPU.
// Of cuDNN 9.28 it says, for an H100 as it is described and channels innermost:
//
//   - Without tensor cores, which compute float32 as TF32 (10 bits of fraction), the recommended heuristic knows
//     engines for products of single pixels, for groups, for depthwise convolutions, for few input channels and for gradients.
//     For 3 x 3 of many channels only the fallback does.
//   - A bias, and ReLU after it, are fused by some of these. A clip on both sides only by the engine that takes
//     every shape, and SiLU, as its documentation has it, by engines of tensor cores alone; they are computed after the convolution.
//   - Dilated convolutions whose channels all meet have none but that engine: they stay with our own kernels.
//   - Most engines refuse padding that differs before and after: an input with such padding, as parts of images have it,
//     is to be copied with it first.
package convolutions

import (
	"fmt"
	"slices"

	"github.com/prefillonly/prefillonly/kernels/cuda/cudnn"
)

// Kind is what a filter's convolutions have in common, whatever the images: one engine computes all of them.
type Kind struct {
	In, Out, Groups            int // channels; Groups divides both
	Kernel, Strides, Dilations [2]int
	Backward                   bool // the gradient of the input
	Bias                       bool // is added to each output channel
	ReLU                       bool // with Bias: what is below 0 becomes 0 then
}

func (k Kind) String() string {
	s := fmt.Sprintf("%d>%d/%d %v strides %v dilations %v", k.In, k.Out, k.Groups, k.Kernel, k.Strides, k.Dilations)
	for _, more := range []struct {
		has  bool
		what string
	}{{k.Backward, " backward"}, {k.Bias, " with bias"}, {k.ReLU, " and ReLU"}} {
		if more.has {
			s += more.what
		}
	}
	return s
}

// Image is how pixels lie: channels side by side, strides in elements.
type Image struct {
	Size, Stride [2]int
	Next         int // stride of images
}

// Geometry is of one call. The sizes fit: output = (input + pre + post - dilation (kernel - 1) - 1) / stride + 1,
// rounded down.
type Geometry struct {
	Images        int
	Input, Output Image
	Pre, Post     [2]int // padding
}

// typical is what a kind's engine is chosen for: an image of a detector in the middle of its backbone.
func typical(k Kind) Geometry {
	g := Geometry{Images: 1}
	for i, size := range [2]int{52, 52} {
		g.Output.Size[i] = (size-1)/k.Strides[i] + 1
		reach := k.Dilations[i] * (k.Kernel[i] - 1)
		if reach%2 == 0 {
			g.Pre[i], g.Post[i] = reach/2, reach/2
		}
		g.Input.Size[i] = (g.Output.Size[i]-1)*k.Strides[i] + 1 + reach - g.Pre[i] - g.Post[i]
	}
	g.Input.dense(k.In)
	g.Output.dense(k.Out)
	return g
}

func (m *Image) dense(channels int) {
	m.Stride = [2]int{m.Size[1] * channels, channels}
	m.Next = m.Size[0] * m.Size[1] * channels
}

// unfit are notes of engines that round operands to fewer bits (tensor cores compute float32 as TF32), whose sums
// depend on where a pixel lies, or which give other bits each time; and of the engine that cuDNN offers for every
// shape and has tuned for none.
var unfit = []cudnn.Note{
	cudnn.NoteTensorCore, cudnn.NoteDownConvertInputs, cudnn.NoteReducedPrecisionReduction, cudnn.NoteFFT, cudnn.NoteNondeterministic,
	cudnn.NoteWinograd, cudnn.NoteWinograd4x4, cudnn.NoteWinograd6x6, cudnn.NoteWinograd13x13, cudnn.NoteStrictNaN,
}

// fitsFloat32 says whether an engine computes float32, each sum in one order.
func fitsFloat32(e cudnn.Engine) bool {
	return !e.Splits() && !slices.ContainsFunc(e.Notes, func(n cudnn.Note) bool { return slices.Contains(unfit, n) })
}

// Fuses says whether an engine may take a bias and ReLU: those of depthwise convolutions take nothing, and with
// a bias cuDNN has only engines that are not made for them.
func (k Kind) Fuses() bool { return !k.Backward && k.In > k.Groups }
