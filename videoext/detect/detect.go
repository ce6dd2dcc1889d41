// Package detect finds what is in pictures: it runs a network on them, on a device of its own, and reads its outputs.
package detect

import (
	"fmt"

	"github.com/prefillonly/prefillonly/engine/dnn"
	"github.com/prefillonly/prefillonly/engine/dnn/direct"
	"github.com/prefillonly/prefillonly/engine/images"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
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
	last    *media.Frame // in which Find has looked
	seen    *seen        // of last
}

// Open makes a Detector of a file's network. The backend is the caller's.
func Open(file string, backend kernels.Backend, o Options) (*Detector, error) {
	network, err := direct.Open(file, backend, dnn.Options{Height: o.Image.Height, Width: o.Image.Width})
	if err != nil {
		return nil, err
	}
	if n := len(network.Limits().Inputs); n != 1 {
		network.Close()
		return nil, fmt.Errorf("%s: the network has %d inputs; pictures go to one", file, n)
	}
	in := network.Input()
	input, err := images.NewTarget(in.Type, in.Shape, o.Image)
	if err != nil {
		network.Close()
		return nil, fmt.Errorf("%s: input %s: %w", file, in.Name, err)
	}
	d := &Detector{o: o, network: network, input: input}
	if err := d.check(); err != nil {
		network.Close()
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return d, nil
}

// check says why the decoder does not read what the network computes.
func (d *Detector) check() error {
	var outputs []vision.Output
	for _, o := range d.network.Outputs() {
		outputs = append(outputs, vision.Output(o))
	}
	return d.o.Decoder.Check(outputs, vision.Size{Height: d.input.Height, Width: d.input.Width})
}

// Close frees the network's memory and its file.
func (d *Detector) Close() { d.network.Close() }

// Detect finds what is in a picture, in the picture's coordinates.
func (d *Detector) Detect(p *images.Picture) (vision.Result, error) {
	s, err := d.inferPicture(p)
	if err != nil {
		return vision.Result{}, err
	}
	return d.decodeResult(s, p)
}

// Gradient says how the utility of what is found in a picture changes with its macroblocks.
func (d *Detector) Gradient(p *images.Picture, u oneadapt.Utility) (*oneadapt.Map, error) {
	s, err := d.inferPicture(p)
	if err != nil {
		return nil, err
	}
	return d.utilityGradient(s, p.Height, p.Width, u)
}

// seen is what the network was shown, and said.
type seen struct {
	shape   []int
	data    []byte
	options vision.Options
	outputs []vision.Output
}

// inferPicture has the network look at a picture.
func (d *Detector) inferPicture(p *images.Picture) (*seen, error) {
	s := &seen{shape: d.input.Shape(1, p.Height, p.Width), options: d.o.Vision}
	n := d.input.Bytes(p.Height, p.Width)
	if n > most {
		return nil, fmt.Errorf("a picture of %d x %d (height x width) is too large for a network that takes any size; set one", p.Height, p.Width)
	}
	s.data = make([]byte, n)
	d.input.Write(s.data, p)
	computed, err := d.network.Run(s.shape, s.data)
	if err != nil {
		return nil, err
	}
	for _, o := range computed {
		s.outputs = append(s.outputs, vision.Output(o))
	}
	s.options.Input = vision.Size{Height: s.shape[1], Width: s.shape[2]}
	if d.input.ChannelsFirst {
		s.options.Input = vision.Size{Height: s.shape[2], Width: s.shape[3]}
	}
	return s, nil
}

// decodeResult is what was found, in a picture's coordinates.
func (d *Detector) decodeResult(s *seen, p *images.Picture) (vision.Result, error) {
	r, err := d.o.Decoder.Decode(s.outputs, s.options)
	if err != nil {
		return vision.Result{}, err
	}
	size := s.options.Input
	height, width := d.input.Inner(size.Height, size.Width, p.Height, p.Width)
	if r.Mask != nil {
		r.Mask.Crop(height*r.Mask.Height/size.Height, width*r.Mask.Width/size.Width)
	}
	r.Place(vision.Size{Height: height, Width: width}, vision.Size{Height: p.Height, Width: p.Width})
	return r, nil
}

// utilityGradient is the gradient of the utility of what was found in a picture of a size.
func (d *Detector) utilityGradient(s *seen, height, width int, u oneadapt.Utility) (*oneadapt.Map, error) {
	sum, seeds, err := d.o.Decoder.Utility(s.outputs, s.options, u.Evaluate)
	if err != nil {
		return nil, err
	}
	weights := make([]direct.Output, len(seeds))
	for i, o := range s.outputs {
		weights[i] = direct.Output{Name: o.Name, Shape: o.Shape, Data: seeds[i]}
	}
	derivatives, err := d.network.Gradient(s.shape, s.data, weights)
	if err != nil {
		return nil, err
	}
	sizes, rows, columns := d.input.Pool(derivatives, s.shape, height, width, media.MacroblockSize)
	return &oneadapt.Map{Width: columns, Height: rows, Values: sizes, Utility: float32(sum)}, nil
}

// most is how many bytes an input may have.
const most = 1 << 30
