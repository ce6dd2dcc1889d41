// Package images makes inputs of networks out of pictures: it decodes JPEG and PNG, resizes, changes the order of
// colours, normalises, and lays the channels out.
package images

import (
	"fmt"
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
)

// Options say how a network wants its pictures. The zero value is RGB from 0 to 255, stretched to the input's size.
type Options struct {
	Mean, Scale   []float64 // of a channel's values v, which become (v - mean) / scale: one for all, or one for each in the network's order; none: 0, and 1
	BGR           bool      // the network's order of colours
	Layout        string    // "NCHW" or "NHWC"; empty: by the input's shape
	Height, Width int       // where the input leaves them open; 0: the picture's own
	// Letterbox keeps a picture's proportions: it goes into the upper left corner, and the rest is Grey, 0 to 255.
	Letterbox bool
	Grey      float64
}

// Target is an input of a network that takes pictures.
type Target struct {
	Type          engine.DType
	Height, Width int // 0: the picture's
	ChannelsFirst bool
	Options
	mean, scale [3]float32
	plain       bool // nothing is to be done to values
}

// NewTarget makes the Target of an input of a type and a shape, of which -1 may be any. The input has four dimensions,
// one of which is the three channels. The error says why an input takes no pictures.
func NewTarget(t engine.DType, shape []int, o Options) (*Target, error) {
	if !slices.Contains([]engine.DType{engine.Uint8, engine.FP16, engine.FP32}, t) || len(shape) != 4 {
		return nil, fmt.Errorf("pictures go to inputs of UINT8, FP16 or FP32 with 4 dimensions, and this one is %v %v", t, shape)
	}
	to := &Target{Type: t, Options: o, ChannelsFirst: o.Layout == "NCHW" || o.Layout == "" && shape[1] == 3, scale: [3]float32{1, 1, 1}}
	channels, spatial := shape[3], shape[1:3]
	if to.ChannelsFirst {
		channels, spatial = shape[1], shape[2:4]
	}
	if channels != 3 {
		return nil, fmt.Errorf("pictures have 3 channels, and the input is %v", shape)
	}
	to.Height, to.Width = o.Height, o.Width
	for i, size := range []*int{&to.Height, &to.Width} {
		if spatial[i] >= 0 {
			if *size > 0 && *size != spatial[i] {
				return nil, fmt.Errorf("pictures are to be %d x %d (height x width), and the input is %v", o.Height, o.Width, shape)
			}
			*size = spatial[i]
		}
	}
	if err := fillChannels(to.mean[:], o.Mean); err != nil {
		return nil, fmt.Errorf("mean: %w", err)
	}
	if err := fillChannels(to.scale[:], o.Scale); err != nil {
		return nil, fmt.Errorf("scale: %w", err)
	}
	to.plain = to.mean == [3]float32{} && to.scale == [3]float32{1, 1, 1}
	return to, nil
}

// fillChannels fills channels with one value for all, or one for each.
func fillChannels(channels []float32, values []float64) error {
	if len(values) != 0 && len(values) != 1 && len(values) != len(channels) {
		return fmt.Errorf("%d values; want 1 or %d", len(values), len(channels))
	}
	for i := range channels {
		if len(values) > 0 {
			channels[i] = float32(values[i%len(values)])
		}
	}
	return nil
}

// Shape is the input's for n pictures of a size.
func (to *Target) Shape(n, height, width int) []int {
	height, width = to.inputSize(height, width)
	if to.ChannelsFirst {
		return []int{n, 3, height, width}
	}
	return []int{n, height, width, 3}
}

// inputSize is that of the input for a picture of a size.
func (to *Target) inputSize(height, width int) (int, int) {
	if to.Height > 0 {
		height = to.Height
	}
	if to.Width > 0 {
		width = to.Width
	}
	return height, width
}

// Bytes is how many bytes the input has for one picture of a size; math.MaxInt if they are more.
func (to *Target) Bytes(height, width int) int {
	height, width = to.inputSize(height, width)
	if height > math.MaxInt/24/max(width, 1) {
		return math.MaxInt
	}
	return 3 * height * width * to.Type.Size()
}

// Inner is the part of an input of a size that a picture of a size fills.
func (to *Target) Inner(height, width, h, w int) (int, int) {
	switch {
	case !to.Letterbox:
		return height, width
	case h*width <= w*height: // as wide as may be
		return max(1, h*width/w), width
	}
	return height, max(1, w*height/h)
}
