package ocr

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/ctc"
	"github.com/prefillonly/prefillonly/engine/images"
	"github.com/prefillonly/prefillonly/engine/pipeline"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/processors"
)

// The networks of a pipeline.
const (
	Detect    = "detect"    // of a picture: how likely each pixel is one of text
	Direct    = "direct"    // of a line: how likely it is upright, and upside down
	Recognize = "recognize" // of a line: which symbol each step is
)

// Line is a line of text in a picture.
type Line struct {
	Text  string    `json:"text"`
	Score float64   `json:"score"` // mean of how likely the symbols are
	Box   [4][2]int `json:"box"`   // its corners from the upper left one on, in pixels of the picture
}

// Pipeline is what is known of one's networks.
type Pipeline struct {
	Alphabet ctc.Alphabet
	Directs  bool // it has a network for that
}

// NewAlphabet is that of PP-OCR's networks: a blank, symbols, and a space.
func NewAlphabet(symbols []string) ctc.Alphabet {
	return ctc.Alphabet{Symbols: slices.Concat([]string{""}, symbols, []string{" "})}
}

// About how long stages take, for each pixel.
const (
	decodePace = 25 * time.Nanosecond // to the page and the network's input
	boxPace    = 6 * time.Nanosecond
	cropPace   = 80 * time.Nanosecond
)

// How lines go to networks.
const (
	lineHeight  = 48
	shortest    = 320 // a line's input is as wide at least,
	longest     = 3200
	widthStep   = 64 // and one of few widths: each is planned for
	directWidth = 192
	surelyOver  = 0.9 // that a line is upside down
	likelyText  = 0.5 // what is recognized with less is none
	atATime     = 64  // lines whose inputs are made at a time
)

// input is one of FP32.
type input struct {
	shape []int
	data  []byte
}

// reading is a picture on its way to its text.
type reading struct {
	of    *Pipeline
	host  pipeline.Host
	page  *page
	lines []Line
}

// Read finds the lines of text in a picture, a JPEG or PNG, in the order in which they are read. Its errors are images' of what is wrong
// with the picture, in a *PictureError, and those of the host.
func (p *Pipeline) Read(ctx context.Context, host pipeline.Host, picture []byte) ([]Line, error) {
	r := &reading{of: p, host: host}
	in, err := r.open(ctx, picture)
	if err != nil {
		return nil, err
	}
	defer func() { host.ReleaseMemory(r.page.bytes()) }()
	var boxes []quad
	err = r.runPasses(ctx, Detect, []input{in}, func(_ int, out []pipeline.Tensor) (err error) {
		boxes, err = r.findBoxes(ctx, out[0])
		return err
	})
	host.ReleaseMemory(int64(len(in.data)))
	if err != nil {
		return nil, err
	}
	for part := range slices.Chunk(boxes, atATime) {
		if err := r.readLines(ctx, part); err != nil {
			return nil, err
		}
	}
	return r.lines, nil
}

// PictureError says what is wrong with a picture.
type PictureError struct{ error }

func (e *PictureError) Unwrap() error { return e.error }

// open decodes the picture to a page, and makes the detecting network's input of it.
func (r *reading) open(ctx context.Context, picture []byte) (in input, err error) {
	height, width, err := images.Size(picture)
	if err != nil {
		return in, &PictureError{err}
	}
	r.page = shapePage(height, width)
	h, w := r.page.detectedSize()
	pass, err := r.planPass(ctx, Detect, 3*h*w)
	if err != nil {
		return in, err
	}
	kept := r.page.bytes() + int64(12*h*w)
	pace := time.Duration(height*width+r.page.height*r.page.width+h*w) * decodePace
	err = r.host.RunStage(ctx, processors.Stage{Kind: "pictures", Takes: pace, Rest: pass}, func() error {
		if err := r.host.HoldMemory(kept + images.Memory(height, width)); err != nil {
			return err
		}
		defer r.host.ReleaseMemory(images.Memory(height, width))
		decoded, err := images.Decode(picture)
		if err != nil {
			r.host.ReleaseMemory(kept)
			return &PictureError{err}
		}
		if err := processors.Yield(ctx); err != nil {
			return err
		}
		if err := r.page.fill(decoded); err != nil {
			return err
		}
		if err := processors.Yield(ctx); err != nil {
			return err
		}
		in = input{[]int{1, 3, h, w}, r.page.asInput(h, w, w)}
		return nil
	})
	return in, err
}

// planPass tells the host of a pass over so many elements.
func (r *reading) planPass(ctx context.Context, network string, elements int) (takes time.Duration, err error) {
	limits, err := r.host.TensorLimits(ctx, network)
	if err != nil {
		return 0, err
	}
	return r.host.PlanPass(network, limits.Units(1, float64(elements), false))
}

// runPasses has the host run a network on inputs. Of a recognizing network the outputs are the likeliest symbol of each step, as
// Int64, and how likely it is; of others the first one.
func (r *reading) runPasses(ctx context.Context, network string, inputs []input, accept func(i int, outputs []pipeline.Tensor) error) error {
	limits, err := r.host.TensorLimits(ctx, network)
	if err != nil {
		return err
	}
	outputs, err := wantedOutputs(network, limits)
	if err != nil {
		return err
	}
	tensors := make([][]pipeline.Tensor, len(inputs))
	for i, in := range inputs {
		tensors[i] = []pipeline.Tensor{{Name: limits.Inputs[0].Name, Type: engine.FP32, Shape: in.shape, Data: in.data}}
	}
	return r.host.RunPasses(ctx, network, outputs, tensors, accept)
}

// wantedOutputs are those that are asked for of a network, which it must have.
func wantedOutputs(network string, limits *wire.TensorLimits) ([]string, error) {
	is := func(t engine.DType) func(wire.TensorSpec) bool {
		return func(s wire.TensorSpec) bool { return s.Type == t }
	}
	n := len(limits.Outputs)
	switch {
	case len(limits.Inputs) != 1 || limits.Inputs[0].Type != engine.FP32 || n == 0 || !slices.ContainsFunc(limits.Outputs, is(engine.FP32)):
	case network == Recognize && n >= 3 && limits.Outputs[n-2].Type == engine.Int64 && limits.Outputs[n-1].Type == engine.FP32:
		return []string{limits.Outputs[n-2].Name, limits.Outputs[n-1].Name}, nil // as decoder: ctc adds them
	case network != Recognize && limits.Outputs[0].Type == engine.FP32:
		return []string{limits.Outputs[0].Name}, nil
	}
	return nil, engine.Errorf(engine.CodeUnavailable, "the network that is to %s does not fit: want one input and a first output of FP32", network)
}

// findBoxes reads the detecting network's output.
func (r *reading) findBoxes(ctx context.Context, out pipeline.Tensor) (boxes []quad, err error) {
	n := len(out.Shape)
	if n < 2 || len(out.Data) != 4*out.Shape[n-1]*out.Shape[n-2] {
		return nil, fmt.Errorf("the network that detects text gave %d bytes of the shape %v, want one map of FP32", len(out.Data), out.Shape)
	}
	m := likelihood{height: out.Shape[n-2], width: out.Shape[n-1]}
	pace := time.Duration(m.height*m.width) * boxPace
	err = r.host.RunStage(ctx, processors.Stage{Kind: "boxes", Takes: pace}, func() error {
		m.values = floatsOf(out.Data)
		boxes = m.findBoxes(r.page.height, r.page.width)
		return nil
	})
	return boxes, err
}

// readLines reads the lines in some boxes.
func (r *reading) readLines(ctx context.Context, boxes []quad) error {
	size, held := 0, int64(0)
	for _, b := range boxes {
		height, width := cropSize(b)
		size += height * width
		_, whole := inputWidth(max(height, width), min(height, width))
		held += int64(2*3*height*width) + 12*lineHeight*int64(directWidth+whole) // crops may be turned
	}
	if err := r.host.HoldMemory(held); err != nil {
		return err
	}
	defer r.host.ReleaseMemory(held)
	crops := make([]*pixels, len(boxes))
	inputs := make([]input, 0, len(boxes))
	err := r.host.RunStage(ctx, processors.Stage{Kind: "crops", Takes: time.Duration(size) * cropPace, Yields: true}, func() error {
		for i, b := range boxes {
			if err := processors.Yield(ctx); err != nil {
				return err
			}
			crops[i] = r.page.crop(b)
			if r.of.Directs {
				inputs = append(inputs, crops[i].directInput())
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if r.of.Directs {
		err := r.runPasses(ctx, Direct, inputs, func(i int, out []pipeline.Tensor) error {
			if p := floatsOf(out[0].Data); len(p) == 2 && p[1] > surelyOver {
				crops[i].turnOver()
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return r.recognize(ctx, boxes, crops)
}

// inputWidth is that of a line of a size in the recognizing network's input, and the input's.
func inputWidth(width, height int) (line, whole int) {
	line = min(longest, scaledWidth(width, height))
	return line, max(shortest, (line+widthStep-1)/widthStep*widthStep)
}

// scaledWidth is a line's in a height of lineHeight.
func scaledWidth(width, height int) int { return max(1, (lineHeight*width+height-1)/height) }

// directInput is the input of a line for the network that finds what is upside down.
func (p *pixels) directInput() input {
	width := min(directWidth, scaledWidth(p.width, p.height))
	return input{[]int{1, 3, lineHeight, directWidth}, p.asInput(lineHeight, width, directWidth)}
}

// recognizeInput is the input of a line for the recognizing network.
func (p *pixels) recognizeInput() input {
	width, whole := inputWidth(p.width, p.height)
	return input{[]int{1, 3, lineHeight, whole}, p.asInput(lineHeight, width, whole)}
}

// recognize reads the lines in crops.
func (r *reading) recognize(ctx context.Context, boxes []quad, crops []*pixels) error {
	inputs := make([]input, len(crops))
	err := r.host.RunStage(ctx, processors.Stage{Kind: "crops", Takes: time.Duration(len(crops)*3*lineHeight*shortest) * decodePace, Yields: true}, func() error {
		for i, c := range crops {
			if err := processors.Yield(ctx); err != nil {
				return err
			}
			inputs[i] = c.recognizeInput()
		}
		return nil
	})
	if err != nil {
		return err
	}
	lines := make([]Line, len(crops))
	err = r.runPasses(ctx, Recognize, inputs, func(i int, out []pipeline.Tensor) (err error) {
		lines[i].Text, lines[i].Score, err = r.of.decode(out)
		return err
	})
	if err != nil {
		return err
	}
	for i, l := range lines {
		if l.Score < likelyText || strings.TrimSpace(l.Text) == "" {
			continue
		}
		for k, corner := range boxes[i] {
			at := r.page.inPicture(corner)
			l.Box[k] = [2]int{int(math.Round(at.x)), int(math.Round(at.y))}
		}
		r.lines = append(r.lines, l)
	}
	return nil
}

// decode reads the outputs of the recognizing network.
func (p *Pipeline) decode(out []pipeline.Tensor) (text string, score float64, err error) {
	if len(out) != 2 || len(out[0].Data) != 2*len(out[1].Data) {
		return "", 0, fmt.Errorf("the network that recognizes text gave %d outputs, want two of equal length", len(out))
	}
	best := make([]int64, len(out[0].Data)/8)
	for i := range best {
		best[i] = int64(binary.LittleEndian.Uint64(out[0].Data[8*i:]))
	}
	return p.Alphabet.Decode(best, floatsOf(out[1].Data))
}

func floatsOf(data []byte) []float32 {
	values := make([]float32, len(data)/4)
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return values
}

// Text is that of lines, one a line.
func Text(lines []Line) string {
	var all []string
	for i := range lines {
		all = append(all, lines[i].Text)
	}
	return strings.Join(all, "\n")
}
