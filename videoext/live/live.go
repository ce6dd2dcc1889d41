// Package live keeps the video streams of a server: it reads their sources or hosts their cameras' sessions, has the pool look at their
// frames, and gives the results to whoever asks over HTTP.
package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/images"
	"github.com/prefillonly/prefillonly/videoext/jobs"
	"github.com/prefillonly/prefillonly/videoext/journal"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/streams"
	"github.com/prefillonly/prefillonly/videoext/vision"
)

// Model is a network that streams may name.
type Model struct {
	Names   []string // the first is the pool's
	Image   images.Options
	Decoder string // of package vision
}

// Config is how streams are kept.
type Config struct {
	Models []Model
	Files  string // directory of the files that streams may be of; empty: none
	State  string // directory that streams and their last results are kept in
}

// maxStreams is how many streams there may be.
const maxStreams = 256

// mostUse is the part of the devices that streams may take: what the scheduler promises, and beyond which it refuses frames.
const mostUse = 0.7

// leastObjectness is that of proposals: methods ask for those above a threshold of their own.
const leastObjectness = 0.05

// Server keeps streams. Its methods are safe for concurrent use.
type Server struct {
	cfg   Config
	maker *jobs.Maker
	log   *zap.Logger
	ctx   context.Context // of all streams
	stop  context.CancelCauseFunc

	mu      sync.Mutex
	streams map[string]*stream // guarded by mu
	group   sync.WaitGroup
}

// New makes a Server, and takes up the streams that an earlier one has kept. The caller closes it.
func New(cfg Config, maker *jobs.Maker, log *zap.Logger) (*Server, error) {
	s := &Server{cfg: cfg, maker: maker, log: log, streams: map[string]*stream{}}
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	if err := os.MkdirAll(cfg.State, 0o700); err != nil {
		return nil, err
	}
	kept, err := os.ReadDir(cfg.State)
	if err != nil {
		return nil, err
	}
	for _, entry := range kept {
		if err := s.takeUp(entry.Name()); err != nil {
			log.Error("a stream is not taken up", zap.String("stream", entry.Name()), zap.Error(err))
		}
	}
	return s, nil
}

// specFile declares the stream of a directory.
const specFile = "stream.json"

// takeUp begins a stream that was kept.
func (s *Server) takeUp(name string) error {
	text, err := os.ReadFile(filepath.Join(s.cfg.State, name, specFile))
	if err != nil {
		return err
	}
	var spec Spec
	if err := json.Unmarshal(text, &spec); err != nil {
		return err
	}
	if err := spec.check(); err != nil {
		return err
	}
	if spec.Name != name {
		return fmt.Errorf("it declares %q", spec.Name)
	}
	model, err := s.model(&spec)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.start(spec, model, expected{rate: spec.Rate})
}

// Close ends all streams, to be taken up again.
func (s *Server) Close() {
	s.stop(errors.New("the server is shutting down"))
	s.group.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.streams {
		st.journal.Close()
	}
}

var (
	errUnknown = errors.New("there is no such stream")
	errExists  = errors.New("there is such a stream already")
	errModel   = errors.New("there is no such model that looks at pictures")
	errNoFrame = errors.New("there is no frame")
)

func (s *Server) model(spec *Spec) (*Model, error) {
	for i := range s.cfg.Models {
		if slices.Contains(s.cfg.Models[i].Names, spec.Model) || spec.Model == "" && len(s.cfg.Models) == 1 {
			return &s.cfg.Models[i], nil
		}
	}
	var there []string
	for _, m := range s.cfg.Models {
		there = append(there, m.Names[0])
	}
	return nil, fmt.Errorf("%w: %.200q; those with a decoder are %s", errModel, spec.Model, strings.Join(there, ", "))
}

// expected is what a stream will bring.
type expected struct {
	rate          float64 // frames a second; 0: not known
	width, height int     // 0: not known
	load          float64 // devices that it takes
}

// add declares a stream, and begins it.
func (s *Server) add(ctx context.Context, spec Spec) error {
	if err := spec.check(); err != nil {
		return err
	}
	model, err := s.model(&spec)
	if err != nil {
		return err
	}
	will := expected{rate: spec.Rate}
	if spec.Source != camera && !spec.remote() {
		if will, err = s.probe(ctx, &spec); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.streams[spec.Name] != nil:
		return fmt.Errorf("%w: %s", errExists, spec.Name)
	case len(s.streams) >= maxStreams:
		return engine.Errorf(engine.CodeOverloaded, "there are %d streams, the limit is %d", len(s.streams), maxStreams)
	}
	if will.load, err = s.admit(ctx, &spec, model, will); err != nil {
		return err
	}
	dir := filepath.Join(s.cfg.State, spec.Name)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, specFile), text, 0o600); err != nil {
		return err
	}
	return s.start(spec, model, will)
}

// probe looks at a file.
func (s *Server) probe(ctx context.Context, spec *Spec) (expected, error) {
	path, err := spec.file(s.cfg.Files)
	if err != nil {
		return expected{}, err
	}
	clip, err := ffmpeg.Open(ctx, path, ffmpeg.Options{})
	if err != nil {
		return expected{}, wrong("source", "source: %v", errors.New(strings.ReplaceAll(err.Error(), path, spec.Source)))
	}
	defer clip.Close()
	info := clip.Info()
	will := expected{rate: info.Rate, width: info.Width, height: info.Height}
	if spec.Rate > 0 && (spec.Rate < will.rate || will.rate == 0) {
		will.rate = spec.Rate
	}
	return will, nil
}

// admit says how many devices a stream will take, and refuses one that is too much with the figures. The caller holds mu.
func (s *Server) admit(ctx context.Context, spec *Spec, m *Model, will expected) (load float64, err error) {
	if will.rate == 0 {
		return 0, nil // a camera says it in the beginning of its session
	}
	network := jobs.Network{Model: m.Names[0], Image: m.Image}
	cost, devices, err := s.maker.Cost(ctx, &network, max(will.width, 1), max(will.height, 1))
	if err != nil {
		return 0, err
	}
	load = cost.Seconds() * will.rate
	if strings.HasPrefix(spec.Method, "dds") {
		load *= 2 // frames are looked at on both streams
	}
	taken := 0.0
	for _, other := range s.streams {
		if st := other.status(); st.Name != spec.Name && (st.State == stateRunning || st.State == stateWaiting) {
			taken += st.Load
		}
	}
	if free := mostUse*float64(devices) - taken; load > free {
		return 0, engine.Errorf(engine.CodeOverloaded, "%.4g frames a second at %v each take %.2f of a device, and %.2f are left of the %.2f that streams may take of %d", will.rate, cost.Round(time.Microsecond), load, max(free, 0), mostUse*float64(devices), devices)
	}
	return load, nil
}

// start begins a stream. The caller holds mu.
func (s *Server) start(spec Spec, m *Model, will expected) error {
	decoder, err := vision.Find(m.Decoder)
	if err != nil {
		return err
	}
	dir := filepath.Join(s.cfg.State, spec.Name)
	kept, from, err := journal.Open(dir)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(s.ctx)
	st := &stream{
		spec: spec, dir: dir, maker: s.maker, log: s.log.With(zap.String("stream", spec.Name)), journal: kept, from: from,
		network: jobs.Network{Model: m.Names[0], Image: m.Image, Decoder: decoder, Vision: vision.Options{Score: spec.Score, Wanted: spec.Classes}},
		inbox:   make(chan incoming), looked: make(chan streams.Looked), stop: stop, stopped: make(chan struct{}),
		state: stateWaiting, rate: will.rate, load: will.load,
	}
	if spec.Source == camera {
		st.network.Vision.Proposals = leastObjectness
	}
	s.streams[spec.Name] = st
	if _, err := os.Stat(filepath.Join(dir, endedFile)); err == nil {
		st.state = stateEnded
		kept.Close()
		close(st.stopped)
		return nil
	}
	s.group.Go(func() { st.run(ctx) }) // both end with ctx
	if spec.Source == camera {
		return nil
	}
	file := spec.Source
	if !spec.remote() {
		if file, err = spec.file(s.cfg.Files); err != nil {
			st.set(stateFailed, err.Error())
			return nil
		}
	}
	s.group.Go(func() { st.read(ctx, file) })
	return nil
}

// find is a stream by its name.
func (s *Server) find(name string) (*stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.streams[name]; st != nil {
		return st, nil
	}
	return nil, fmt.Errorf("%w: %.80q", errUnknown, name)
}

// all are the streams by their names.
func (s *Server) all() []*stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*stream, 0, len(s.streams))
	for _, name := range slices.Sorted(maps.Keys(s.streams)) {
		list = append(list, s.streams[name])
	}
	return list
}

// remove ends a stream, and forgets it.
func (s *Server) remove(name string) error {
	st, err := s.find(name)
	if err != nil {
		return err
	}
	st.stop(errRemoved)
	<-st.stopped
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams[name] != st {
		return fmt.Errorf("%w: %.80q", errUnknown, name)
	}
	st.journal.Close()
	delete(s.streams, name)
	return os.RemoveAll(st.dir)
}
