package cudnn

import (
	"fmt"
	"slices"
)

// ConvolutionKind is what a filter's convolutions have in common, whatever the images: one engine computes all of them.
type ConvolutionKind struct {
	In, Out, Groups            int // channels; Groups divides both
	Kernel, Strides, Dilations [2]int
	Backward                   bool // the gradient of the input
	Bias                       bool // is added to each output channel
	ReLU                       bool // with Bias: what is below 0 becomes 0 then
}

func (k ConvolutionKind) String() string {
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

// ConvolutionImage is how pixels lie: channels side by side, strides in elements.
type ConvolutionImage struct {
	Size, Stride [2]int
	Next         int // stride of images
}

// ConvolutionGeometry is of one call. The sizes fit: output = (input + pre + post - dilation (kernel - 1) - 1) / stride + 1,
// rounded down.
type ConvolutionGeometry struct {
	Images        int
	Input, Output ConvolutionImage
	Pre, Post     [2]int // padding
}

// typicalGeometry is what a kind's engine is chosen for: an image of a detector in the middle of its backbone.
func typicalGeometry(k ConvolutionKind) ConvolutionGeometry {
	g := ConvolutionGeometry{Images: 1}
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

func (m *ConvolutionImage) dense(channels int) {
	m.Stride = [2]int{m.Size[1] * channels, channels}
	m.Next = m.Size[0] * m.Size[1] * channels
}

// unfitNotes are notes of engines that round operands to fewer bits (tensor cores compute float32 as TF32), whose sums
// depend on where a pixel lies, or which give other bits each time; and of the engine that cuDNN offers for every
// shape and has tuned for none.
var unfitNotes = []Note{
	NoteTensorCore, NoteDownConvertInputs, NoteReducedPrecisionReduction, NoteFFT, NoteNondeterministic,
	NoteWinograd, NoteWinograd4x4, NoteWinograd6x6, NoteWinograd13x13, NoteStrictNaN,
}

// fitsFloat32 says whether an engine computes float32, each sum in one order.
func fitsFloat32(e Engine) bool {
	return !e.Splits() && !slices.ContainsFunc(e.Notes, func(n Note) bool { return slices.Contains(unfitNotes, n) })
}

// Fuses says whether an engine may take a bias and ReLU: those of depthwise convolutions take nothing, and with
// a bias cuDNN has only engines that are not made for them.
func (k ConvolutionKind) Fuses() bool { return !k.Backward && k.In > k.Groups }
