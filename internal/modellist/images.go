package modellist

import (
	"github.com/prefillonly/prefillonly/engine/images"
	"github.com/prefillonly/prefillonly/internal/config"
)

// ImageOptions are how a model's pictures become its input.
func ImageOptions(i *config.Image) images.Options {
	o := images.Options{Mean: i.Mean, Scale: i.Scale, BGR: i.Order == "BGR", Layout: i.Layout, Letterbox: len(i.Letterbox) > 0}
	if o.Letterbox {
		o.Grey = float64(i.Letterbox[0])
	}
	if len(i.Size) == 2 {
		o.Height, o.Width = i.Size[0], i.Size[1]
	}
	return o
}
