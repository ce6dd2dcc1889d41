package ocr

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prefillonly/prefillonly/engine/ctc"
	"github.com/prefillonly/prefillonly/engine/images"
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

// Tensor is an input or output of a network, of FP32 but for a recognizing network's first output.
type Tensor struct {
	Shape []int
	Data  []byte
}

// Host runs networks and has its own order of work of the processors, and bounds on memory.
type Host interface {
	// Infer runs a network once for each input, and hands accept the outputs of each as they come: those of a recognizing network
	// are the likeliest symbol of each step, as Int64, and how likely it is.
	Infer(ctx context.Context, network string, inputs []Tensor, accept func(i int, outputs []Tensor) error) error
	// Plan tells, before anything is done, of an input of a network that is to come, and how long the pass will take. It refuses what
	// cannot be in time.
	Plan(ctx context.Context, network string, input []int) (takes time.Duration, err error)
	Do(ctx context.Context, s processors.Stage, f func() error) error
	Hold(bytes int64) error
	Release(bytes int64)
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

// reading is a picture on its way to its text.
type reading struct {
	of    *Pipeline
	host  Host
	page  *page
	lines []Line
}

// Read finds the lines of text in a picture, a JPEG or PNG, in the order in which they are read. Its errors are images' of what is wrong
// with the picture, in a *PictureError, and those of the host.
func (p *Pipeline) Read(ctx context.Context, host Host, picture []byte) ([]Line, error) {
	r := &reading{of: p, host: host}
	input, err := r.open(ctx, picture)
	if err != nil {
		return nil, err
	}
	defer func() { host.Release(r.page.bytes()) }()
	var boxes []quad
	err = host.Infer(ctx, Detect, []Tensor{input}, func(_ int, out []Tensor) (err error) {
		boxes, err = r.findBoxes(ctx, out[0])
		return err
	})
	host.Release(int64(len(input.Data)))
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
func (r *reading) open(ctx context.Context, picture []byte) (input Tensor, err error) {
	height, width, err := images.Size(picture)
	if err != nil {
		return input, &PictureError{err}
	}
	r.page = shapePage(height, width)
	h, w := r.page.detectedSize()
	shape := []int{1, 3, h, w}
	pass, err := r.host.Plan(ctx, Detect, shape)
	if err != nil {
		return input, err
	}
	kept := r.page.bytes() + int64(12*h*w)
	pace := time.Duration(height*width+r.page.height*r.page.width+h*w) * decodePace
	err = r.host.Do(ctx, processors.Stage{Kind: "pictures", Takes: pace, Rest: pass}, func() error {
		if err := r.host.Hold(kept + images.Memory(height, width)); err != nil {
			return err
		}
		defer r.host.Release(images.Memory(height, width))
		decoded, err := images.Decode(picture)
		if err != nil {
			r.host.Release(kept)
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
		input = Tensor{shape, r.page.asInput(h, w, w)}
		return nil
	})
	return input, err
}

// findBoxes reads the detecting network's output.
func (r *reading) findBoxes(ctx context.Context, out Tensor) (boxes []quad, err error) {
	n := len(out.Shape)
	if n < 2 || len(out.Data) != 4*out.Shape[n-1]*out.Shape[n-2] {
		return nil, fmt.Errorf("the network that detects text gave %d bytes of the shape %v, want one map of FP32", len(out.Data), out.Shape)
	}
	m := likelihood{height: out.Shape[n-2], width: out.Shape[n-1]}
	pace := time.Duration(m.height*m.width) * boxPace
	err = r.host.Do(ctx, processors.Stage{Kind: "boxes", Takes: pace}, func() error {
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
	if err := r.host.Hold(held); err != nil {
		return err
	}
	defer r.host.Release(held)
	crops := make([]*pixels, len(boxes))
	inputs := make([]Tensor, 0, len(boxes))
	err := r.host.Do(ctx, processors.Stage{Kind: "crops", Takes: time.Duration(size) * cropPace}, func() error {
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
		err := r.host.Infer(ctx, Direct, inputs, func(i int, out []Tensor) error {
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
func (p *pixels) directInput() Tensor {
	width := min(directWidth, scaledWidth(p.width, p.height))
	return Tensor{[]int{1, 3, lineHeight, directWidth}, p.asInput(lineHeight, width, directWidth)}
}

// recognizeInput is the input of a line for the recognizing network.
func (p *pixels) recognizeInput() Tensor {
	width, whole := inputWidth(p.width, p.height)
	return Tensor{[]int{1, 3, lineHeight, whole}, p.asInput(lineHeight, width, whole)}
}

// recognize reads the lines in crops.
func (r *reading) recognize(ctx context.Context, boxes []quad, crops []*pixels) error {
	inputs := make([]Tensor, len(crops))
	err := r.host.Do(ctx, processors.Stage{Kind: "crops", Takes: time.Duration(len(crops)*3*lineHeight*shortest) * decodePace}, func() error {
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
	err = r.host.Infer(ctx, Recognize, inputs, func(i int, out []Tensor) (err error) {
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
func (p *Pipeline) decode(out []Tensor) (text string, score float64, err error) {
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
