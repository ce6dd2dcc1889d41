package features

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/prefillonly/prefillonly/engine/dnn"
	"github.com/prefillonly/prefillonly/engine/dnn/direct"
	"github.com/prefillonly/prefillonly/engine/images"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/vision"
)

// leastScore is of what counts for the utility: far enough below the threshold.
const leastScore = 0.02

// Detector is a network in two parts: one on a sensor that makes maps of features of pictures, and one on a server that finds things in them. One goroutine, that of
// its backend, uses it.
type Detector struct {
	whole         *dnn.Network
	front, back   *direct.Network
	input         *images.Target
	decoder       *vision.Decoder
	at            wire.TensorSpec // the features
	size          vision.Size
	height, width int // of the part of the input that pictures fill
}

// Open opens a network of pictures of height x width, and parts it at the last map that all goes through. How it wants its pictures is up to image, and what
// its outputs mean up to the decoder.
func Open(file string, backend kernels.Backend, decoder string, image images.Options) (_ *Detector, err error) {
	d := &Detector{size: vision.Size{Height: image.Height, Width: image.Width}}
	defer func() {
		if err != nil {
			d.Close()
			err = fmt.Errorf("%s: %w", file, err)
		}
	}()
	if d.decoder, err = vision.Find(decoder); err != nil {
		return nil, err
	}
	if d.whole, err = dnn.Read(file, dnn.Options{Height: image.Height, Width: image.Width}); err != nil {
		return nil, err
	}
	points, err := d.whole.SplitPoints()
	if err != nil {
		return nil, err
	}
	for _, p := range points {
		if len(p.Shape) == 4 {
			d.at = p
		}
	}
	if d.at.Name == "" {
		return nil, errors.New("there is no map that all goes through")
	}
	front, back, err := d.whole.Split(d.at.Name)
	if err != nil {
		return nil, err
	}
	if d.front, err = direct.New(front, backend); err != nil {
		return nil, err
	}
	if d.back, err = direct.New(back, backend); err != nil {
		return nil, err
	}
	in := d.front.Input()
	d.input, err = images.NewTarget(in.Type, in.Shape, image)
	return d, err
}

// Close frees both parts.
func (d *Detector) Close() {
	for _, n := range []*direct.Network{d.front, d.back} {
		if n != nil {
			n.Close()
		}
	}
	if d.whole != nil {
		_ = d.whole.Close() // it was read alone
	}
}

// extractFeatures are what the sensor's part makes of a picture. All pictures have one size.
func (d *Detector) extractFeatures(p *images.Picture) ([]float32, error) {
	data := make([]byte, d.input.Bytes(p.Height, p.Width))
	d.input.Write(data, p)
	d.height, d.width = d.input.Inner(d.size.Height, d.size.Width, p.Height, p.Width)
	out, err := d.front.Run(d.input.Shape(1, p.Height, p.Width), data)
	if err != nil {
		return nil, err
	}
	return out[0].Data, nil
}

// frameBytes is the features of a frame as the server's part takes them.
func (v *volume) frameBytes(n int) []byte {
	size := v.channels * v.height * v.width
	var table [256]uint32
	for level := range table {
		table[level] = math.Float32bits(v.levelToValue(byte(level)))
	}
	data := make([]byte, 0, 4*size)
	for _, level := range v.levels[n*size : (n+1)*size] {
		data = binary.LittleEndian.AppendUint32(data, table[level])
	}
	return data
}

// computeOutputs are what the server's part computes of a frame.
func (d *Detector) computeOutputs(data []byte) (outputs []vision.Output, err error) {
	computed, err := d.back.Run(d.at.Shape, data)
	for _, o := range computed {
		outputs = append(outputs, vision.Output(o))
	}
	return outputs, err
}

func (d *Detector) decodeOptions() vision.Options {
	return vision.Options{Input: d.size, Score: leastScore}
}

// inferFindings is what the server's part finds in a frame.
func (d *Detector) inferFindings(data []byte) (videoext.Findings, error) {
	outputs, err := d.computeOutputs(data)
	if err != nil {
		return videoext.Findings{}, err
	}
	r, err := d.decoder.Decode(outputs, d.decodeOptions())
	if err != nil {
		return videoext.Findings{}, err
	}
	return r.Findings(vision.Size{Height: d.height, Width: d.width}), nil
}

// utilityGradient is how the utility of what is found in a frame changes with each of its features.
func (d *Detector) utilityGradient(data []byte, u oneadapt.Utility) (utility float64, slopes []float32, err error) {
	outputs, err := d.computeOutputs(data)
	if err != nil {
		return 0, nil, err
	}
	utility, seeds, err := d.decoder.Utility(outputs, d.decodeOptions(), u.Evaluate)
	if err != nil {
		return 0, nil, err
	}
	weights := make([]direct.Output, len(outputs))
	for i, o := range outputs {
		weights[i] = direct.Output{Name: o.Name, Shape: o.Shape, Data: seeds[i]}
	}
	slopes, err = d.back.Gradient(d.at.Shape, data, weights)
	return utility, slopes, err
}
