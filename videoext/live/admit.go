package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/internal/processors"
	"github.com/prefillonly/prefillonly/videoext/jobs"
	"github.com/prefillonly/prefillonly/videoext/media"
)

// mostUse is the part of the devices that streams may take: what the scheduler promises, and beyond which it refuses frames.
const mostUse = 0.7

// demand is what a stream brings.
type demand struct {
	Rate   float64 `json:"rate"`             // frames a second; 0: not known
	Width  int     `json:"width,omitempty"`  // 0: not known
	Height int     `json:"height,omitempty"` // 0: not known
	Memory int64   `json:"memory,omitempty"` // bytes that a source takes which the server reads; 0: not known
}

// atMost is a demand of which frames are left out above a rate; 0: none are.
func (d demand) atMost(rate float64) demand {
	if rate > 0 && (rate < d.Rate || d.Rate == 0) {
		d.Rate = rate
	}
	return d
}

// load is how many devices a stream takes.
func (d demand) load(cost time.Duration, spec *Spec) float64 {
	inferences := 1.0
	if m, err := spec.newMethod(); err == nil && spec.Source == camera {
		inferences = max(inferences, m.Inferences)
	}
	return inferences * cost.Seconds() * d.Rate
}

// admitStream refuses a stream that would take more of the devices than is free with the figures. It waits until the pool has told what a frame
// takes; then `then` takes the stream in, under mu. What the pool has told may be old, or have been measured while devices were busy, and without frames it would never tell
// better: before a stream is refused, its network looks at some.
func (s *Server) admitStream(ctx context.Context, spec *Spec, n *jobs.Network, d demand, then func() error) error {
	cost, devices := time.Duration(0), 0
	if d.Rate > 0 {
		var err error
		if cost, devices, err = s.maker.Cost(ctx, n, max(d.Width, 1), max(d.Height, 1)); err != nil {
			return err
		}
	}
	err := s.admitAtCost(spec, d, cost, devices, then)
	if failed := new(engine.Error); !errors.As(err, &failed) || failed.Code != engine.CodeOverloaded {
		return err
	}
	if measured, ok := s.measureFrameCost(ctx, n, d, "video/"+spec.Name); ok && measured < cost {
		return s.admitAtCost(spec, d, measured, devices, then)
	}
	return err
}

// What is looked at before a stream is refused.
const (
	greyFrames = 5
	greyTime   = 5 * time.Second // at most
)

// measureFrameCost is what the network takes for a grey frame, the median of some; false if it does not look at them in time.
func (s *Server) measureFrameCost(ctx context.Context, n *jobs.Network, d demand, user string) (time.Duration, bool) {
	ctx, stop := context.WithTimeout(ctx, greyTime)
	defer stop()
	grey, took := media.NewFrame(max(d.Width&^1, 16), max(d.Height&^1, 16)), make([]time.Duration, greyFrames)
	for i := range took {
		_, why, spent := s.maker.Infer(ctx, n, []*media.Frame{grey}, jobs.Terms{Arrived: time.Now(), User: user})
		if took[i] = spent.Device; why[0] != "" || spent.Device <= 0 {
			return 0, false
		}
	}
	slices.Sort(took)
	return took[greyFrames/2], true
}

// pixelTime is about what a processor takes for a pixel of a frame, to decode it and to make the input of it, before that is known better.
const pixelTime = 3 * time.Nanosecond

// mostPixelTime bounds what is learnt of it while processors are busy.
const mostPixelTime = 10 * time.Nanosecond

// learntFrames is how many frames tell it.
const learntFrames = 100

// processors is how many processors frames take.
func (d demand) processors(pixel time.Duration) float64 {
	return d.Rate * float64(d.Width) * float64(d.Height) * pixel.Seconds()
}

// pixelTime is what the frames of all streams have taken; the caller holds mu.
func (s *Server) pixelTime() time.Duration {
	var spent time.Duration
	var frames, pixels float64
	for _, st := range s.streams {
		c, d := st.figure.Now(), st.part.current()
		seen := float64(c.Frames)
		frames += seen
		pixels += seen * float64(d.Width) * float64(d.Height)
		if d.Width > 0 {
			spent += c.Spent.Decode + c.Spent.Scale + c.Spent.Read
		}
	}
	if frames < learntFrames || pixels == 0 {
		return pixelTime
	}
	return min(mostPixelTime, time.Duration(float64(spent)/pixels))
}

// admitToProcessors refuses a stream whose frames would take more of the processors than is free, with the figures; the caller holds mu.
func (s *Server) admitToProcessors(spec *Spec, d demand) error {
	pixel, taken := s.pixelTime(), 0.0
	for name, other := range s.streams {
		if name != spec.Name && !other.condition.isOver() {
			taken += other.part.current().processors(pixel)
		}
	}
	slots := processors.Shared().Slots()
	most := mostUse * float64(slots)
	if takes := d.processors(pixel); takes > max(most-taken, 0) {
		return engine.Errorf(engine.CodeOverloaded, "%.4g frames a second of %d x %d take %.3g of a processor to decode and scale, and %.3g are left of the %.3g that streams may take of %d (--cpu-slots)",
			d.Rate, d.Width, d.Height, takes, max(most-taken, 0), most, slots)
	}
	return nil
}

// admitAtCost is admit by what a frame takes.
func (s *Server) admitAtCost(spec *Spec, d demand, cost time.Duration, devices int, then func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := 0.0
	for name, other := range s.streams {
		if name != spec.Name {
			taken += other.load()
		}
	}
	load := d.load(cost, spec)
	if free := mostUse*float64(devices) - taken; load > max(free, 0) {
		return engine.Errorf(engine.CodeOverloaded, "%.4g frames a second at %v each take %.3g of a device, and %.3g are left of the %.3g that streams may take of %d",
			d.Rate, cost.Round(time.Microsecond), load, max(free, 0), mostUse*float64(devices), devices)
	}
	if err := s.admitToProcessors(spec, d); err != nil {
		return err
	}
	return then()
}

// admitFound admits what a stream was found to bring, and keeps it for the next process. What takes no more of the devices than has been
// admitted of the stream keeps that part, whatever frames take by now: a camera that comes back is not refused since devices are busy.
func (s *Server) admitFound(ctx context.Context, st *stream, d demand) error {
	n, err := st.inference.currentNetwork()
	if err != nil {
		return err
	}
	was := st.part.current()
	keep := func() error {
		st.part.setDemand(d)
		if was == d {
			return nil
		}
		return writeDeclared(st.dir, declared{st.spec, st.by, &d})
	}
	if s.coversDemand(ctx, n, was, d) {
		return keep()
	}
	return s.admitStream(ctx, &st.spec, n, d, keep)
}

// coversDemand says that a stream which brings d takes no more of the devices than by an admitted demand.
func (s *Server) coversDemand(ctx context.Context, n *jobs.Network, admitted, d demand) bool {
	if d.Rate <= 0 || d.Rate > admitted.Rate {
		return false
	}
	if d.Width == admitted.Width && d.Height == admitted.Height {
		return true
	}
	before, _, err := s.maker.Cost(ctx, n, max(admitted.Width, 1), max(admitted.Height, 1))
	if err != nil {
		return false
	}
	now, _, err := s.maker.Cost(ctx, n, max(d.Width, 1), max(d.Height, 1))
	return err == nil && now <= before
}

// ended does not wait.
var ended = func() context.Context {
	ctx, stop := context.WithCancel(context.Background())
	stop()
	return ctx
}()

// part is what a stream has of the devices. Its methods are safe for concurrent use.
type part struct {
	mu     sync.Mutex
	demand demand  // guarded by mu
	takes  float64 // guarded by mu; devices, when that was last known
}

// current is what the stream brings.
func (p *part) current() demand {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.demand
}

// rate is that of the frames that are to be expected; 0: it is not known.
func (p *part) rate() float64 { return p.current().Rate }

func (p *part) setDemand(d demand) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.demand = d
}

// setTakes notes how many devices the stream takes, where that is known, and says how many it was last known to.
func (p *part) setTakes(takes float64, known bool) float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known {
		p.takes = takes
	}
	return p.takes
}

// load is how many devices a stream takes, as far as is known; one that takes no more frames takes none.
func (s *stream) load() float64 {
	n, err := s.inference.currentNetwork()
	if err != nil || s.condition.isOver() {
		return 0
	}
	d := s.part.current()
	cost, _, err := s.inference.maker.Cost(ended, n, max(d.Width, 1), max(d.Height, 1))
	return s.part.setTakes(d.load(cost, &s.spec), err == nil)
}

// declared is a stream as it is kept.
type declared struct {
	Spec
	owner
	Demand *demand `json:"demand,omitempty"`
}

// specFile declares the stream of a directory.
const specFile = "stream.json"

func readDeclared(dir string) (d declared, err error) {
	text, err := os.ReadFile(filepath.Join(dir, specFile))
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return d, fmt.Errorf("%s: %w", specFile, err)
	}
	return d, d.check()
}

// writeDeclared puts the file in place at once: whoever reads it finds the one before or this one.
func writeDeclared(dir string, d declared) error {
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	name := filepath.Join(dir, specFile)
	if err := os.WriteFile(name+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}
