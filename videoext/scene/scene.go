// Package scene draws a street with cars, bicycles and persons, frame by frame with the true boxes, and holds the small network that was
// trained on such streets (tools/train/scene/train.py): video and a detector that are clear of licences, and whose truth is known.
package scene

import (
	_ "embed"
	"image"
	"math"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/media"
)

// Classes of what is drawn, as the COCO data set numbers them.
const (
	Person = iota
	Bicycle
	Car
)

// Detector is the network that finds them, in ONNX's format: the decoder fastestdet reads it. Its F1 on streets that it was not trained
// on is 0.87 as they are drawn, and 0.79 at QP 36 and a scale of 0.8.
//
//go:embed detector.onnx
var Detector []byte

// Scene is a street. The same size, seed and time give the same picture. It is for one goroutine at a time.
type Scene struct {
	seed       uint64
	background *image.RGBA
	picture    canvas
}

// New makes the street of a seed, in frames of a width and a height in pixels; both are to be even.
func New(width, height int, seed uint64) *Scene {
	s := &Scene{seed: seed, background: image.NewRGBA(image.Rect(0, 0, width, height)), picture: newCanvas(width, height)}
	s.drawStreet(canvas{s.background})
	return s
}

// lane is where things of a kind move along, at a depth in units of that of the frame's lower edge.
type lane struct {
	class int
	depth float64
	speed float64 // in metres a second; below 0: to the left
	gap   float64 // from one to the next, on average, in metres
}

// lanes are in the order in which they are drawn.
var lanes = []lane{
	{Person, 5.6, -1.2, 9},
	{Person, 5.2, 1.4, 11},
	{Car, 4.4, -8, 17},
	{Car, 3.5, 9, 19},
	{Bicycle, 2.75, 4, 21},
	{Person, 2.5, -1.5, 7},
	{Car, 1.95, -7, 15},
	{Car, 1.55, 6, 16},
	{Bicycle, 1.32, -3.5, 17},
	{Person, 1.12, 1.3, 6},
}

// thing is one of those in a lane: its left lower corner in pixels, and how many of them a metre has.
type thing struct {
	lane  *lane
	dice  dice
	x, y  float64
	metre float64
	time  float64 // in seconds
}

// Frame draws the picture of a time and says what is in it: all things of which a good part is seen.
func (s *Scene) Frame(at time.Duration) (*media.Frame, []videoext.Detection) {
	copy(s.picture.Pix, s.background.Pix)
	var boxes []videoext.Detection
	for i := range lanes {
		boxes = append(boxes, s.drawLane(i, at.Seconds())...)
	}
	s.addNoise(uint64(at))
	f := media.FromRGBA(s.picture.RGBA, media.BT601)
	f.Time = at
	return f, visibleDetections(boxes)
}

// drawLane draws what moves in a lane. Things are numbered from the left to the right as they stand at time 0.
func (s *Scene) drawLane(number int, seconds float64) (boxes []videoext.Detection) {
	l := &lanes[number]
	w, h := s.frameSize()
	metre := h * 0.13 / l.depth
	moved := l.speed * seconds
	first := int(math.Floor((-8 - moved) / l.gap))
	last := int(math.Ceil((w/metre + 2 - moved) / l.gap))
	for k := first; k <= last; k++ {
		d := newDice(s.seed, uint64(number), uint64(k))
		if d.nextFloat() < 0.25 {
			continue
		}
		t := thing{lane: l, metre: metre, y: s.groundY(l.depth), time: seconds}
		t.x = (float64(k)*l.gap + d.nextFloat()*(l.gap-5) + moved) * metre
		t.y += d.nextFloat() * 0.15 * metre
		t.dice = d
		width, height := t.drawThing(s.picture)
		boxes = append(boxes, videoext.Detection{Class: l.class, Score: 1, Region: videoext.Region{
			X0: float32(t.x / w), Y0: float32((t.y - height) / h), X1: float32((t.x + width) / w), Y1: float32(t.y / h),
		}})
	}
	return boxes
}

// visibleDetections leaves out what is outside, or mostly hidden by what was drawn later.
func visibleDetections(all []videoext.Detection) (seen []videoext.Detection) {
	for i, d := range all {
		inside := d.Intersect(videoext.Whole)
		hidden := 1 - inside.Area()/d.Area()
		for _, nearer := range all[i+1:] {
			hidden = max(hidden, d.Intersect(nearer.Region).Area()/d.Area())
		}
		if d.Region = inside; hidden < 0.55 {
			seen = append(seen, d)
		}
	}
	return seen
}

func (s *Scene) frameSize() (w, h float64) {
	b := s.background.Bounds()
	return float64(b.Dx()), float64(b.Dy())
}

// horizon is its height from above, as a part of the frame's.
const horizon = 0.36

// groundY is where the ground at a depth is, in pixels from above.
func (s *Scene) groundY(depth float64) float64 {
	_, h := s.frameSize()
	return h * (horizon + (1-horizon)/depth)
}

// addNoise is that of a camera's sensor.
func (s *Scene) addNoise(frame uint64) {
	state := newDice(s.seed, frame)
	for i := 0; i < len(s.picture.Pix); i += 4 {
		state.nextUint64()
		n := int(state>>60) + int(state>>56&15) - 15 // -15 to 15, as two dice
		for k := range 3 {
			p := &s.picture.Pix[i+k]
			*p = byte(min(max(int(*p)+n/4, 0), 255))
		}
	}
}

// dice are seeded random numbers: splitmix64 (Steele and others, OOPSLA 2014).
type dice uint64

func newDice(seeds ...uint64) dice {
	d := dice(0)
	for _, s := range seeds {
		d += dice(s)
		d = dice(d.nextUint64())
	}
	return d
}

func (d *dice) nextUint64() uint64 {
	*d += 0x9e3779b97f4a7c15
	z := uint64(*d)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// nextFloat is from 0 to 1.
func (d *dice) nextFloat() float64 { return float64(d.nextUint64()>>11) / (1 << 53) }
