// Package detect finds what is in pictures: it runs a network on them, on a device of its own, and reads its outputs.
package detect

import (
	"fmt"

	"github.com/prefillonly/prefillonly/engine/dnn"
	"github.com/prefillonly/prefillonly/engine/dnn/direct"
	"github.com/prefillonly/prefillonly/engine/images"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/videoext/vision"
)

// Options say how pictures become a network's input, and what its outputs mean.
type Options struct {
	Image   images.Options
	Decoder *vision.Decoder
	Vision  vision.Options // but for Input
}

// usual is how the networks that a decoder is made for want their pictures, as their authors publish them.
var usual = map[string]images.Options{
	"yolox":        {BGR: true, Letterbox: true, Grey: 114},
	"fastestdet":   {BGR: true, Scale: []float64{255}},
	"gfl":          {BGR: true, Mean: []float64{103.53, 116.28, 123.675}, Scale: []float64{57.375, 57.12, 58.395}},
	"ssd":          {Mean: []float64{127}, Scale: []float64{128}},
	"yunet":        {BGR: true},
	"segmentation": {Mean: []float64{127.5}, Scale: []float64{127.5}},
}

// Usual is how networks that a decoder reads want their pictures, unless their makers say otherwise.
func Usual(decoder string) images.Options { return usual[decoder] }

// Detector runs one network. One goroutine, that of its backend, uses it.
type Detector struct {
	o       Options
	network *direct.Network
	input   *images.Target
}

// Open makes a Detector of a file's network. The backend is the caller's.
func Open(file string, backend kernels.Backend, o Options) (*Detector, error) {
	network, err := direct.Open(file, backend, dnn.Options{Height: o.Image.Height, Width: o.Image.Width})
	if err != nil {
		return nil, err
	}
	in := network.Input()
	input, err := images.NewTarget(in.Type, in.Shape, o.Image)
	if err != nil {
		network.Close()
		return nil, fmt.Errorf("%s: input %s: %w", file, in.Name, err)
	}
	return &Detector{o, network, input}, nil
}

// Close frees the network's memory and its file.
func (d *Detector) Close() { d.network.Close() }

// Detect finds what is in a picture, in the picture's coordinates.
func (d *Detector) Detect(p *images.Picture) (vision.Result, error) {
	shape := d.input.Shape(1, p.Height, p.Width)
	if n := d.input.Bytes(p.Height, p.Width); n > most {
		return vision.Result{}, fmt.Errorf("a picture of %d x %d (height x width) is too large for a network that takes any size; set one", p.Height, p.Width)
	}
	data := make([]byte, d.input.Bytes(p.Height, p.Width))
	d.input.Write(data, p)
	computed, err := d.network.Run(shape, data)
	if err != nil {
		return vision.Result{}, err
	}
	var outputs []vision.Output
	for _, o := range computed {
		outputs = append(outputs, vision.Output(o))
	}
	o := d.o.Vision
	o.Input = vision.Size{Height: shape[1], Width: shape[2]}
	if d.input.ChannelsFirst {
		o.Input = vision.Size{Height: shape[2], Width: shape[3]}
	}
	r, err := d.o.Decoder.Decode(outputs, o)
	if err != nil {
		return vision.Result{}, err
	}
	height, width := d.input.Inner(o.Input.Height, o.Input.Width, p.Height, p.Width)
	if r.Mask != nil {
		r.Mask.Crop(height*r.Mask.Height/o.Input.Height, width*r.Mask.Width/o.Input.Width)
	}
	r.Place(vision.Size{Height: height, Width: width}, vision.Size{Height: p.Height, Width: p.Width})
	return r, nil
}

// most is how many bytes an input may have.
const most = 1 << 30
