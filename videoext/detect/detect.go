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
	in, outputs, err := d.look(p)
	if err != nil {
		return vision.Result{}, err
	}
	r, err := d.o.Decoder.Decode(outputs, in.options)
	if err != nil {
		return vision.Result{}, err
	}
	size := in.options.Input
	height, width := d.input.Inner(size.Height, size.Width, p.Height, p.Width)
	if r.Mask != nil {
		r.Mask.Crop(height*r.Mask.Height/size.Height, width*r.Mask.Width/size.Width)
	}
	r.Place(vision.Size{Height: height, Width: width}, vision.Size{Height: p.Height, Width: p.Width})
	return r, nil
}

// Differentiate says how the utility of what is found in a picture changes with its macroblocks.
func (d *Detector) Differentiate(p *images.Picture, u oneadapt.Utility) (*oneadapt.Map, error) {
	in, outputs, err := d.look(p)
	if err != nil {
		return nil, err
	}
	sum, seeds, err := d.o.Decoder.Utility(outputs, in.options, u.Of)
	if err != nil {
		return nil, err
	}
	weights := make([]direct.Output, len(outputs))
	for i, o := range outputs {
		weights[i] = direct.Output{Name: o.Name, Shape: o.Shape, Data: seeds[i]}
	}
	derivatives, err := d.network.Gradient(in.shape, in.data, weights)
	if err != nil {
		return nil, err
	}
	sums, rows, columns := d.input.Pool(derivatives, in.shape, p.Height, p.Width, media.MacroblockSize)
	return &oneadapt.Map{Width: columns, Height: rows, Values: sums, Utility: float32(sum)}, nil
}

// input is what the network was shown.
type input struct {
	shape   []int
	data    []byte
	options vision.Options
}

// look has the network look at a picture.
func (d *Detector) look(p *images.Picture) (*input, []vision.Output, error) {
	in := &input{shape: d.input.Shape(1, p.Height, p.Width), options: d.o.Vision}
	n := d.input.Bytes(p.Height, p.Width)
	if n > most {
		return nil, nil, fmt.Errorf("a picture of %d x %d (height x width) is too large for a network that takes any size; set one", p.Height, p.Width)
	}
	in.data = make([]byte, n)
	d.input.Write(in.data, p)
	computed, err := d.network.Run(in.shape, in.data)
	if err != nil {
		return nil, nil, err
	}
	var outputs []vision.Output
	for _, o := range computed {
		outputs = append(outputs, vision.Output(o))
	}
	in.options.Input = vision.Size{Height: in.shape[1], Width: in.shape[2]}
	if d.input.ChannelsFirst {
		in.options.Input = vision.Size{Height: in.shape[2], Width: in.shape[3]}
	}
	return in, outputs, nil
}

// most is how many bytes an input may have.
const most = 1 << 30
