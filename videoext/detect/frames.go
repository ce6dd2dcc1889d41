package detect

import (
	"github.com/prefillonly/prefillonly/engine/images"
	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/vision"
)

// What ways to stream get to see: below the least threshold that any of them has.
const (
	leastScore      = 0.2
	leastObjectness = 0.05
)

// stride is what the sides of a picture are multiples of, for networks of convolutions alone.
const stride = 32

// ForFrames are the options of a network that a decoder reads, for ways to stream frames of a size: a network that takes any size gets
// about theirs.
func ForFrames(decoder string, width, height int) (o Options, err error) {
	o = Options{Image: Usual(decoder), Vision: vision.Options{Score: leastScore, Proposals: leastObjectness, Margins: true}}
	if decoder == "yolox" {
		o.Image.Height, o.Image.Width = (height+stride-1)/stride*stride, (width+stride-1)/stride*stride
	}
	o.Decoder, err = vision.Find(decoder)
	return o, err
}

// Find finds what is in a frame.
func (d *Detector) Find(f *media.Frame) (videoext.Findings, error) {
	p := images.FromImage(f.RGBA())
	s, err := d.inferPicture(p)
	if err != nil {
		return videoext.Findings{}, err
	}
	d.last, d.seen = f, s
	r, err := d.decodeResult(s, p)
	if err != nil {
		return videoext.Findings{}, err
	}
	return r.Findings(vision.Size{Height: f.Height, Width: f.Width}), nil
}

// FrameGradient says how the utility of what is found in a frame changes with the frame's macroblocks. It is quicker for the frame that Find had last.
func (d *Detector) FrameGradient(f *media.Frame, u oneadapt.Utility) (*oneadapt.Map, error) {
	s := d.seen
	if f != d.last || s == nil {
		var err error
		if s, err = d.inferPicture(images.FromImage(f.RGBA())); err != nil {
			return nil, err
		}
	}
	return d.utilityGradient(s, f.Height, f.Width, u)
}
