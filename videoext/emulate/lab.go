// Package emulate runs ways to stream video on clips: codecs and networks are real, time and the link are virtual.
package emulate

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
)

// Codec encodes on the camera, and decodes and scales on either side.
type Codec interface {
	// Encode scales frames to the settings' size, and encodes them.
	Encode(frames []*media.Frame, s media.Settings) (Coded, error)
	Decode(s *media.Segment) ([]*media.Frame, error)
	Scale(f *media.Frame, width, height int) (*media.Frame, error)
}

// Coded is what an encoder made of frames.
type Coded struct {
	Segment   *media.Segment
	Container int // bytes of it as a file
	// Took is the processor's time for it.
	Took time.Duration
}

// Network finds what is in frames of any size.
type Network interface {
	Infer(f *media.Frame) (videoext.Findings, error)
}

// GradientSource says how the utility of what is found in a frame changes with the frame's macroblocks.
type GradientSource interface {
	Gradient(f *media.Frame) (*oneadapt.Map, error)
}

// Tools are what work is done with. Those of some methods alone may be nil.
type Tools struct {
	Codec  Codec
	Server Network
	Camera Network // a small one, of methods that Detect
	// Gradient is of the server's network.
	Gradient GradientSource
	// GradientWait is for how long each gradient waits for the device, beside other work. While one does the server's side knows that it is under way.
	GradientWait time.Duration
	// Resolve makes a frame larger by a network for that.
	Resolve func(f *media.Frame, factor int) (*media.Frame, error)
	// Differ says how much a frame differs from one before.
	Differ func(feature method.Feature, before, frame *media.Frame) float64
	// Track finds things of one frame in later ones.
	Track func(from *media.Frame, things []videoext.Detection, to []*media.Frame) [][]videoext.Detection
	// Clock is the processor's time that this process has used.
	Clock func() time.Duration
}

// Clip is a video in its best quality.
type Clip struct {
	Name   string
	Frames []*media.Frame // of one size
	Rate   float64        // frames a second
	Bytes  int            // of the file, for as long as Frames last
}

// Lab does work for all methods on one clip, each once.
type Lab struct {
	tools   Tools
	clip    *Clip
	coded   map[key]Coded
	found   map[key]inference
	slopes  map[key]gradient
	decoded []decoded // of late, at most maxDecoded
}

// key names work.
type key [sha256.Size]byte

// inference is what a network said of frames, and how long it took for it.
type inference struct {
	findings []videoext.Findings
	took     time.Duration
}

// gradient is one as it goes over the wire, and how long it took.
type gradient struct {
	data []byte
	took time.Duration
}

type decoded struct {
	key    key
	frames []*media.Frame
}

// maxDecoded is how many segments are kept decoded: as many as methods wait for streams B of.
const maxDecoded = 4

// NewLab begins work on a clip.
func NewLab(tools Tools, clip *Clip) *Lab {
	return &Lab{tools: tools, clip: clip, coded: map[key]Coded{}, found: map[key]inference{}, slopes: map[key]gradient{}}
}

// Truth is what the server's network finds in the frames as they are.
func (l *Lab) Truth() ([]videoext.Findings, error) {
	in, err := l.inferFrames(l.tools.Server, l.clip.Frames, key{})
	return in.findings, err
}

// encodeFrames encodes frames of the clip, from a number on.
func (l *Lab) encodeFrames(from int, a *method.Encode) (Coded, key, error) {
	s := a.Settings
	if s.Rate == 0 {
		s.Rate = l.clip.Rate
	}
	k, err := encodeKey(from, a.Frames, s, a.Kept)
	if err != nil {
		return Coded{}, k, err
	}
	if c, ok := l.coded[k]; ok {
		return c, k, nil
	}
	before := l.tools.Clock()
	frames, err := l.shownFrames(from, a)
	if err != nil {
		return Coded{}, k, err
	}
	masking := l.tools.Clock() - before
	c, err := l.tools.Codec.Encode(frames, s)
	if err != nil {
		return c, k, fmt.Errorf("encode %d frames of %s from %d: %w", len(frames), l.clip.Name, from, err)
	}
	c.Took += masking
	l.coded[k] = c
	return c, k, nil
}

// shownFrames are the frames that are encoded. They are scaled before they are made black in part, so that nothing black gets into what is kept.
func (l *Lab) shownFrames(from int, a *method.Encode) ([]*media.Frame, error) {
	frames := make([]*media.Frame, len(a.Frames))
	for i, n := range a.Frames {
		frames[i] = l.clip.Frames[from+n]
		if a.Kept == nil {
			continue
		}
		width, height := a.Settings.Size(frames[i].Width, frames[i].Height)
		scaled, err := l.tools.Codec.Scale(frames[i], width, height)
		if err != nil {
			return nil, err
		}
		frames[i] = videoext.Keep(scaled, a.Kept[i])
	}
	return frames, nil
}

// encodeKey names what is encoded, and how.
func encodeKey(from int, frames []int, s media.Settings, kept [][]videoext.Region) (k key, err error) {
	h := sha256.New()
	fmt.Fprintln(h, from, frames, kept)
	if maps, ok := s.Quality.(media.Maps); ok {
		for _, m := range maps {
			data, err := m.AppendBinary(nil)
			if err != nil {
				return k, err
			}
			h.Write(data)
		}
		s.Quality = nil
	}
	fmt.Fprintf(h, "%#v", s)
	return key(h.Sum(nil)), nil
}

// decodeFrames gives the frames of what was encoded.
func (l *Lab) decodeFrames(k key) ([]*media.Frame, error) {
	for _, d := range l.decoded {
		if d.key == k {
			return d.frames, nil
		}
	}
	frames, err := l.tools.Codec.Decode(l.coded[k].Segment)
	if err != nil {
		return nil, fmt.Errorf("decode frames of %s: %w", l.clip.Name, err)
	}
	if len(l.decoded) == maxDecoded {
		l.decoded = l.decoded[1:]
	}
	l.decoded = append(l.decoded, decoded{k, frames})
	return frames, nil
}

// inferFrames looks at frames that have a name; those of none have the zero key, which is the clip's own.
func (l *Lab) inferFrames(n Network, frames []*media.Frame, k key) (inference, error) {
	if in, ok := l.found[k]; ok {
		return in, nil
	}
	var in inference
	before := l.tools.Clock()
	for _, f := range frames {
		found, err := n.Infer(f)
		if err != nil {
			return in, fmt.Errorf("%s: %w", l.clip.Name, err)
		}
		in.findings = append(in.findings, found)
	}
	in.took = l.tools.Clock() - before
	l.found[k] = in
	return in, nil
}

// frameGradient asks for the gradient of a frame that has a name.
func (l *Lab) frameGradient(f *media.Frame, k key) (gradient, error) {
	if g, ok := l.slopes[k]; ok {
		return g, nil
	}
	before := l.tools.Clock()
	m, err := l.tools.Gradient.Gradient(f)
	if err != nil {
		return gradient{}, fmt.Errorf("%s: %w", l.clip.Name, err)
	}
	g := gradient{took: l.tools.Clock() - before}
	if g.data, err = m.AppendBinary(nil); err != nil {
		return g, fmt.Errorf("%s: %w", l.clip.Name, err)
	}
	l.slopes[k] = g
	return g, nil
}

// derivedKey names what was made of other work.
func derivedKey(of key, how ...any) key {
	h := sha256.New()
	h.Write(of[:])
	fmt.Fprintf(h, "%#v", how)
	return key(h.Sum(nil))
}

// Clip is the lab's.
func (l *Lab) Clip() *Clip { return l.clip }
