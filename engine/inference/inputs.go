package inference

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/images"
	"github.com/prefillonly/prefillonly/engine/oip"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/processors"
)

// rawRequest makes a request of a body without JSON: the data of a model's only input, or a picture for it. All outputs come
// as binary data.
func rawRequest(limits *wire.TensorLimits, body []byte) (*oip.Request, error) {
	if len(limits.Inputs) != 1 {
		return nil, newRequestError("%s is 0, which is for models of one input; this one has %d", oip.HeaderLength, len(limits.Inputs))
	}
	spec := &limits.Inputs[0]
	t := oip.Tensor{Name: spec.Name}
	if _, _, err := images.Size(body); !errors.Is(err, images.ErrFormat) && len(spec.Shape) == 4 {
		t.Shape, t.Elements = []int{1}, [][]byte{body}
	} else {
		shape, err := rawShape(spec, len(body))
		if err != nil {
			return nil, err
		}
		t.Type, t.Shape, t.Data = spec.Type, shape, body
	}
	return &oip.Request{Inputs: []oip.Tensor{t}, Binary: true}, nil
}

// rawShape is the shape of an input of one frame that has so many bytes.
func rawShape(spec *wire.TensorSpec, size int) ([]int, error) {
	shape, open := slices.Clone(spec.Shape), -1
	if len(shape) > 0 && shape[0] < 0 {
		shape[0] = 1
	}
	for i, n := range shape {
		if n >= 0 {
			continue
		}
		if open >= 0 {
			return nil, newRequestError("%s is 0, and the input %s has the shape %v, of which more than one dimension is open; send JSON with a shape", oip.HeaderLength, spec.Name, spec.Shape)
		}
		open, shape[i] = i, 1
	}
	ref := engine.Ref{Type: spec.Type, Shape: shape}
	each, ok := ref.Bytes()
	switch {
	case ok && each == size:
	case ok && open >= 0 && each > 0 && size > 0 && size%each == 0:
		shape[open] = size / each
	default:
		return nil, newRequestError("the body has %d bytes; the input %s is %v of the shape %v, %d bytes for one", size, spec.Name, spec.Type, spec.Shape, each)
	}
	return shape, nil
}

// pictures are a tensor of pictures on its way into an input: files, or frames of bytes.
type pictures struct {
	name   string
	to     *images.Target
	files  [][]byte
	frames []byte // of height x width RGB each, n of them
	n      int
	height int
	width  int
	shape  []int
	pixels int   // of all
	memory int64 // that the largest takes
}

// picturesOf says whether a tensor is of pictures that the input is yet to be made of, which are those that Bytes bring
// and bytes of colours that are not the input itself.
func picturesOf(t *oip.Tensor, spec *wire.TensorSpec, o images.Options) (*pictures, error) {
	frames := t.Type == engine.Uint8 && len(t.Shape) == 4 && t.Shape[3] == 3 && len(spec.Shape) == 4 && !(spec.Type == engine.Uint8 && fitsSpec(t.Shape, spec.Shape))
	if t.Type != oip.Bytes && !frames {
		return nil, nil
	}
	to, err := images.NewTarget(spec.Type, spec.Shape, o)
	if err != nil {
		return nil, newRequestError("input %s is of %s: %v", t.Name, oip.TypeName(t.Type), err)
	}
	p := &pictures{name: t.Name, to: to, files: t.Elements, frames: t.Data}
	if frames {
		p.n, p.height, p.width = t.Shape[0], t.Shape[1], t.Shape[2]
		if len(t.Data) == 0 {
			return nil, newRequestError("input %s has the shape %v, want that of a picture", t.Name, t.Shape)
		}
		p.pixels = p.n * p.height * p.width
	} else if err := p.measure(t.Shape); err != nil {
		return nil, err
	}
	if batch := spec.Shape[0]; batch >= 0 && p.n != batch {
		return nil, newRequestError("input %s has %d pictures, and the model takes %d", t.Name, p.n, batch)
	}
	p.shape = to.Shape(p.n, p.height, p.width)
	return p, nil
}

// fitsSpec says whether a shape is one of those that a spec allows.
func fitsSpec(shape, spec []int) bool {
	return slices.EqualFunc(shape, spec, func(n, allowed int) bool { return allowed < 0 || n == allowed })
}

// measure looks at the sizes of files.
func (p *pictures) measure(shape []int) error {
	if p.n = len(p.files); p.n == 0 {
		return newRequestError("input %s has the shape %v, and no picture", p.name, shape)
	}
	for i, file := range p.files {
		h, w, err := images.Size(file)
		if err != nil {
			return newRequestError("input %s, picture %d of %d bytes: %v", p.name, i, len(file), err)
		}
		if open := p.to.Height == 0 || p.to.Width == 0; open && i > 0 && (h != p.height || w != p.width) {
			return newRequestError("input %s takes pictures of any size, but all of one: picture 0 has %d x %d pixels, picture %d has %d x %d", p.name, p.width, p.height, i, w, h)
		}
		p.height, p.width = h, w
		p.pixels += h * w
		p.memory = max(p.memory, images.Memory(h, w))
	}
	return nil
}

// inputBytes is the size of the input; math.MaxInt if it is more.
func (p *pictures) inputBytes() int {
	each := p.to.Bytes(p.height, p.width)
	if each > math.MaxInt/p.n {
		return math.MaxInt
	}
	return p.n * each
}

// writeInput makes the input.
func (p *pictures) writeInput(ctx context.Context) ([]byte, error) {
	each := p.to.Bytes(p.height, p.width)
	out := make([]byte, p.n*each)
	for i := range p.n {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		var picture *images.Picture
		if p.files == nil {
			size := 3 * p.height * p.width
			picture = images.FromRGB(p.frames[i*size:][:size], p.height, p.width)
		} else {
			var err error
			if picture, err = images.Decode(p.files[i]); err != nil {
				return nil, newRequestError("input %s, picture %d of %d bytes: %v", p.name, i, len(p.files[i]), err)
			}
		}
		p.to.Write(out[i*each:][:each], picture)
	}
	return out, nil
}

// makePictures makes the input of pictures when its turn has come, within the bounds on bytes.
func (c *Call) makePictures(ctx context.Context, p *pictures, limits *wire.TensorLimits, left int) ([]byte, error) {
	size := p.inputBytes()
	if size > left {
		return nil, newRequestError("input %s: %d pictures become %s bytes; the tensors of a request may have %d, and %d of these are left", p.name, p.n, figureText(size), c.s.cfg.MaxInputs, left)
	}
	device, err := c.PlanTensors(c.Model, limits.Units(float64(p.n), float64(size/p.to.Type.Size()), false))
	if err != nil {
		return nil, err
	}
	var out []byte
	err = c.RunStage(ctx, c.s.cfg.Processors, processors.Stage{Kind: "pictures", Takes: time.Duration(p.pixels) * pixelPace, Rest: device}, func() error {
		if err := c.holdMemory(int64(size) + p.memory); err != nil {
			return err
		}
		defer c.Release(c.s.memory, p.memory) // what is made stays until the job has it
		var err error
		out, err = p.writeInput(ctx)
		return err
	})
	return out, err
}

func figureText(n int) string {
	if n == math.MaxInt {
		return "more than " + fmt.Sprint(n)
	}
	return fmt.Sprint(n)
}
