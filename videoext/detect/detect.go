// Package detect finds what is in pictures: it runs a network on them, on a device of its own, and reads its outputs.
package detect

import (
	"bytes"
	"fmt"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn"
	"github.com/prefillonly/prefillonly/engine/images"
	"github.com/prefillonly/prefillonly/engine/weights/store"
	"github.com/prefillonly/prefillonly/engine/wire"
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
	network *dnn.Network
	model   *dnn.Model
	work    *dnn.Workspace
	input   *images.Target
	name    string // of the input
	blobs   memory
}

// Open makes a Detector of a file's network. The backend is the caller's.
func Open(file string, backend kernels.Backend, o Options) (*Detector, error) {
	network, err := dnn.Read(file, dnn.Options{Height: o.Image.Height, Width: o.Image.Width})
	if err != nil {
		return nil, err
	}
	d := &Detector{o: o, network: network, blobs: memory{}}
	if err := d.load(backend); err != nil {
		d.Close()
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return d, nil
}

func (d *Detector) load(backend kernels.Backend) (err error) {
	if d.model, err = dnn.Open(d.network, store.New(backend), d.blobs); err != nil {
		return err
	}
	inputs := d.model.Info().Tensors.Inputs
	if len(inputs) != 1 {
		return fmt.Errorf("the network has %d inputs; pictures go to one", len(inputs))
	}
	d.name = inputs[0].Name
	if d.input, err = images.NewTarget(inputs[0].Type, inputs[0].Shape, d.o.Image); err != nil {
		return fmt.Errorf("input %s: %w", d.name, err)
	}
	if d.work, err = dnn.NewWorkspace(backend, d.model.WorkBytes()); err != nil {
		return err
	}
	if err := d.model.Use(d.work); err != nil {
		return err
	}
	for i := range d.model.Chunks() {
		if err := d.model.LoadChunk(i); err != nil {
			return err
		}
	}
	return nil
}

// Close frees the network's memory and its file.
func (d *Detector) Close() {
	if d.model != nil {
		d.model.Close()
	}
	if d.work != nil {
		d.work.Free()
	}
	_ = d.network.Close() // it was read alone
}

// Detect finds what is in a picture, in the picture's coordinates.
func (d *Detector) Detect(p *images.Picture) (vision.Result, error) {
	shape := d.input.Shape(1, p.Height, p.Width)
	if n := d.input.Bytes(p.Height, p.Width); n > most {
		return vision.Result{}, fmt.Errorf("a picture of %d x %d (height x width) is too large for a network that takes any size; set one", p.Height, p.Width)
	}
	data := make([]byte, d.input.Bytes(p.Height, p.Width))
	d.input.Write(data, p)
	outputs, err := d.run(engine.Ref{Name: d.name, Type: d.input.Type, Shape: shape, Blob: d.blobs.put(data)})
	if err != nil {
		return vision.Result{}, err
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

// run computes all outputs.
func (d *Detector) run(in engine.Ref) ([]vision.Output, error) {
	defer clear(d.blobs)
	item := &wire.TensorItem{Tensors: engine.Tensors{Inputs: []engine.Ref{in}, Frames: 1}}
	pass, err := d.model.Begin(&wire.Run{Items: []wire.RunItem{{Work: item}}})
	if err != nil {
		return nil, err
	}
	defer pass.Close()
	for done := false; !done; {
		if done, err = pass.Step(); err != nil {
			return nil, err
		}
	}
	result := pass.Results()[0]
	if result.Err != nil {
		return nil, result.Err
	}
	var outputs []vision.Output
	for _, ref := range result.Output.(*engine.TensorOutput).Outputs {
		typ, ok := map[engine.DType]kernels.DType{engine.FP32: kernels.F32, engine.FP16: kernels.F16, engine.BF16: kernels.BF16}[ref.Type]
		if !ok {
			continue // such as how many there are
		}
		data := d.blobs[ref.Blob]
		values := make([]float32, int64(len(data))/typ.Size())
		kernels.Expand(values, typ, data)
		outputs = append(outputs, vision.Output{Name: ref.Name, Shape: ref.Shape, Data: values})
	}
	return outputs, nil
}

// memory is blobs of this process.
type memory map[string][]byte

func (m memory) put(data []byte) string {
	name := fmt.Sprint(len(m))
	m[name] = data
	return name
}

// Put implements dnn.Blobs.
func (m memory) Put(data []byte) (string, error) {
	return m.put(bytes.Clone(data)), nil
}

// Read implements dnn.Blobs.
func (m memory) Read(blob string, dst []byte) error {
	data, ok := m[blob]
	if !ok || len(data) != len(dst) {
		return fmt.Errorf("there is no blob %s of %d bytes", blob, len(dst))
	}
	copy(dst, data)
	return nil
}
