package live

import (
	"slices"
	"sync"

	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
)

// mostSegments is how many segments are kept.
const mostSegments = 60

// Segment is one of a stream, as far as it is known.
type Segment struct {
	Number     method.Segment `json:"segment"`
	Of         int            `json:"of"`     // frames
	Frames     int            `json:"frames"` // of them, that came
	Bytes      int            `json:"bytes"`  // of the encoded frames as a file
	Seconds    float64        `json:"seconds"`
	Width      int            `json:"width"` // of what was encoded
	Height     int            `json:"height"`
	Quantisers *Grid          `json:"quantisers,omitempty"` // nil: they are not known
	BBias      int            `json:"b_bias,omitempty"`
	Found      *float32       `json:"found,omitempty"` // elements in its last frame, counted softly by their scores: the proxy of accuracy; nil: there is no gradient
	Gradient   *Grid          `json:"gradient,omitempty"`
}

// Grid is values of parts of a frame, row by row from the top.
type Grid struct {
	Columns int     `json:"columns"`
	Rows    int     `json:"rows"`
	Mean    float64 `json:"mean"`   // of quantisers; of a gradient the greatest value is 15
	Values  []byte  `json:"values"` // quantisers, or levels of a gradient as the camera is told them: each is half of what the one two above it is, and 0 is none
}

// quantiserGrid are a map's.
func quantiserGrid(m *media.QPMap) *Grid {
	if m == nil {
		return nil
	}
	return newGrid(m.Columns, m.Rows, m.QP)
}

func newGrid(columns, rows int, values []byte) *Grid {
	sum := 0
	for _, v := range values {
		sum += int(v)
	}
	return &Grid{columns, rows, float64(sum) / float64(len(values)), values}
}

// segmentHistory is what became of the last segments of a stream: how the camera encoded each, what came of it, and the gradient that the
// network had for it. Its methods are safe for concurrent use; the zero value is that of a stream without segments.
type segmentHistory struct {
	mu  sync.Mutex
	all []Segment // guarded by mu; by number
}

// addSegment notes a segment.
func (c *segmentHistory) addSegment(s Segment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, known := c.findSegment(s.Number)
	if known {
		return // it came again
	}
	if c.all = slices.Insert(c.all, i, s); len(c.all) > mostSegments {
		c.all = slices.Delete(c.all, 0, len(c.all)-mostSegments)
	}
}

// addGradient notes the gradient of a segment.
func (c *segmentHistory) addGradient(n method.Segment, m *oneadapt.Map) {
	g := newGrid(m.Width, m.Height, m.Levels())
	c.mu.Lock()
	defer c.mu.Unlock()
	if i, known := c.findSegment(n); known {
		found := m.Utility
		c.all[i].Found, c.all[i].Gradient = &found, g
	}
}

// after is what is kept behind a segment.
func (c *segmentHistory) after(n method.Segment) []Segment {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, _ := c.findSegment(n + 1)
	return slices.Clone(c.all[i:])
}

func (c *segmentHistory) findSegment(n method.Segment) (at int, known bool) {
	return slices.BinarySearchFunc(c.all, n, func(s Segment, n method.Segment) int { return int(s.Number) - int(n) })
}
