// Package vision reads what networks say of pictures: boxes of things and their classes, or a class for each pixel.
// Decoders have names, by which a model's entry in a configuration chooses one.
package vision

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Output is a network's output for one picture: dense, row-major, with or without a first dimension of 1. Without Data it is a shape alone.
type Output struct {
	Name  string
	Shape []int
	Data  []float32
}

// Size is a height and a width in pixels.
type Size struct{ Height, Width int }

// Box is a rectangle in pixels, from the upper left corner X0, Y0 to X1, Y1.
type Box struct{ X0, Y0, X1, Y1 float32 }

// Detection is a thing in a picture.
type Detection struct {
	Box   Box
	Class int
	Label string
	Score float32 // 0 to 1

	row int // of the network's output, that says so
}

// Proposal is a part of a picture where there may be a thing, whatever it is.
type Proposal struct {
	Box        Box
	Objectness float32 // how likely there is one: what the network says of that, or the sum of its classes' scores; 0 to 1
}

// Mask is a class for each pixel of a network's output, row by row.
type Mask struct {
	Size
	Class  []uint8
	Margin []uint8  // 255 times the difference of the two greatest probabilities, of those who asked for it
	Labels []string // of the classes, as far as they are known
}

// Name is the label, or the class's number.
func (d *Detection) Name() string { return className(d.Label, d.Class) }

// Label is the name of a class, or its number.
func (m *Mask) Label(class int) string {
	if class < len(m.Labels) {
		return m.Labels[class]
	}
	return className("", class)
}

func className(label string, class int) string {
	if label == "" {
		return fmt.Sprint("class ", class)
	}
	return label
}

// Result is what is in a picture, in the coordinates of the network's input.
type Result struct {
	Detections []Detection // the best score first
	Proposals  []Proposal  // the best first
	Mask       *Mask       // of a network that says what each pixel is
}

// Options say what of a network's outputs is wanted.
type Options struct {
	Input  Size    // of the network
	Score  float32 // the least of a detection; 0: DefaultScore
	IoU    float32 // above which the worse of two boxes of a class goes; 0: DefaultIoU
	Labels []string
	Most   int // detections; 0: DefaultMost
	// Proposals asks for proposals of at least that objectness, too; 0: for none.
	Proposals float32
	// Wanted are the classes that are looked for: other detections go, and a proposal's objectness is the sum of these classes'
	// scores. nil: all, and what the network itself says of objectness.
	Wanted  []int
	Margins bool // of masks, too
}

// What Options leave out.
const (
	DefaultScore = 0.3
	DefaultIoU   = 0.45
	DefaultMost  = 300
)

func (o Options) withDefaults(labels []string) Options {
	if o.Score == 0 {
		o.Score = DefaultScore
	}
	if o.IoU == 0 {
		o.IoU = DefaultIoU
	}
	if o.Most == 0 {
		o.Most = DefaultMost
	}
	if o.Labels == nil {
		o.Labels = labels
	}
	return o
}

// Decoder reads the outputs of a kind of network.
type Decoder struct {
	Name  string
	Helps string // what it reads
	// labels of the classes, by their number; nil: they have numbers alone
	labels func(classes int) []string
	// fits says what is wrong with the outputs' shapes, of which dimensions may be negative: not known
	fits   func(outputs []Output, in Size) error
	decode func(outputs []Output, o Options) (Result, error)
	// slopes are how a detection's score changes with the outputs; nil: it has no gradient, or one of pixels
	slopes func(outputs []Output, d *Detection) []partial
}

// decoders are all, in the order in which they are listed.
var decoders = []Decoder{
	{"yolox", "YOLOX: one output [1, N, 5 + classes] of raw boxes over strides 8, 16 and 32", cocoOf, fitsYOLOX, decodeYOLOX, yoloxSlopes},
	{"fastestdet", "FastestDet: one output [1, 5 + classes, H, W]", cocoOf, fitsFastestDet, fastestDet, fastestDetSlopes},
	{"gfl", "NanoDet and PicoDet (generalised focal loss): scores and distances, one output of both over strides 8 to 64 (NanoDet-Plus) or two a stride", cocoOf, fitsGFL, decodeGFL, nil},
	{"ssd", "outputs of scores [1, N, classes with the background] and of boxes [1, N, 4] from 0 to 1, as of RFB faces", faceOf, fitsSSD, decodeSSD, ssdSlopes},
	{"yunet", "YuNet faces: cls, obj and bbox for each stride, or loc, conf and iou over priors", faceOf, fitsYuNet, decodeYuNet, nil},
	{"segmentation", "one output of class scores for each pixel, [1, classes, H, W] or [1, H, W, classes]", pixelsOf, fitsSegmentation, decodeSegmentation, nil},
}

// Names lists the decoders.
func Names() []string {
	names := make([]string, len(decoders))
	for i := range decoders {
		names[i] = decoders[i].Name
	}
	return names
}

// Help says of each decoder, a line each, what it reads.
func Help() string {
	var b strings.Builder
	for i := range decoders {
		fmt.Fprintf(&b, "  %-14s%s\n", decoders[i].Name, decoders[i].Helps)
	}
	return b.String()
}

// Find is the decoder of a name.
func Find(name string) (*Decoder, error) {
	i := slices.IndexFunc(decoders, func(d Decoder) bool { return d.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("there is no decoder %q; there are %s", name, strings.Join(Names(), ", "))
	}
	return &decoders[i], nil
}

// Class is the number of a class by its label, if the decoder's networks have such labels.
func (d *Decoder) Class(label string) (int, error) {
	for _, classes := range []int{len(coco), len(pascal), len(road)} {
		if i := slices.Index(d.labels(classes), label); i >= 0 {
			return i, nil
		}
	}
	return 0, fmt.Errorf("decoder %s has no class %q; say its number", d.Name, label)
}

// Decode reads outputs. The error names what is not as the decoder expects it.
func (d *Decoder) Decode(outputs []Output, o Options) (Result, error) {
	for _, out := range outputs {
		if err := out.check(); err != nil {
			return Result{}, fmt.Errorf("decoder %s: %w", d.Name, err)
		}
	}
	if o.Input.Height < 1 || o.Input.Width < 1 {
		return Result{}, fmt.Errorf("decoder %s: an input of %d x %d pixels", d.Name, o.Input.Height, o.Input.Width)
	}
	outputs = withBatchDim(outputs)
	err := d.fits(outputs, o.Input)
	var r Result
	if err == nil {
		r, err = d.decode(outputs, o.withDefaults(nil))
	}
	if err != nil {
		return Result{}, fmt.Errorf("decoder %s: %w", d.Name, err)
	}
	d.labelResult(&r, o.Labels, classesOf(outputs))
	return r, nil
}

// labelResult names what was found.
func (d *Decoder) labelResult(r *Result, given []string, most int) {
	labels := given
	if labels == nil {
		labels = d.labels(most)
	}
	for i := range r.Detections {
		if c := r.Detections[i].Class; c < len(labels) {
			r.Detections[i].Label = labels[c]
		}
	}
	if r.Mask != nil {
		r.Mask.Labels = labels
	}
}

// check holds an output to its shape.
func (out *Output) check() error {
	n := 1
	for _, d := range out.Shape {
		if d < 0 || d > 0 && n > math.MaxInt32/d {
			return fmt.Errorf("output %s has the shape %v", out.Name, out.Shape)
		}
		n *= d
	}
	if n != len(out.Data) || len(out.Shape) < 2 {
		return fmt.Errorf("output %s has the shape %v and %d values", out.Name, out.Shape, len(out.Data))
	}
	return nil
}

// singleOutput is the only output, of so many dimensions.
func singleOutput(outputs []Output, dims int) (*Output, error) {
	if len(outputs) != 1 || len(outputs[0].Shape) != dims {
		return nil, fmt.Errorf("it reads one output of %d dimensions; there are %s", dims, describeOutputs(outputs))
	}
	return &outputs[0], nil
}

// describeOutputs tells what outputs there are.
func describeOutputs(outputs []Output) string {
	list := make([]string, len(outputs))
	for i, out := range outputs {
		list[i] = fmt.Sprintf("%s %v", out.Name, out.Shape)
	}
	return fmt.Sprintf("%d: %s", len(list), strings.Join(list, ", "))
}
