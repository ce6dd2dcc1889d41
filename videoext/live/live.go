// Package live keeps the video streams of a server: it reads their sources or hosts their cameras' sessions, has the pool look at their
// frames, and gives the results to whoever asks over HTTP.
package live

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/images"
	"github.com/prefillonly/prefillonly/internal/budget"
	"github.com/prefillonly/prefillonly/internal/reach"
	"github.com/prefillonly/prefillonly/videoext/jobs"
	"github.com/prefillonly/prefillonly/videoext/journal"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/source"
	"github.com/prefillonly/prefillonly/videoext/vision"
)

// Model is a network that streams may name.
type Model struct {
	Names   []string // the first is the pool's
	Image   images.Options
	Decoder string // of package vision

	Merge    *Merge // that it is of; nil: none
	Original bool   // it is one as it was before a merge: streams are looked at by it if they name it
}

// Config is how streams are kept.
type Config struct {
	Models  []Model
	Sources reach.Policy // where cameras may be
	Files   string       // directory of the files that streams may be of; empty: none
	Memory  int64        // bytes that all streams may take; 0: DefaultMemory
	State   string       // directory that streams and their last results are kept in
	Merges  Merges       // of models that are of one
}

// DefaultMemory is what a Config leaves out.
const DefaultMemory = 4 << 30

// maxStreams is how many streams there may be.
const maxStreams = 256

// leastObjectness is that of proposals: methods ask for those above a threshold of their own.
const leastObjectness = 0.05

// Server keeps streams. Its methods are safe for concurrent use.
type Server struct {
	cfg    Config
	maker  *jobs.Maker
	log    *zap.Logger
	ctx    context.Context // of all streams
	stop   context.CancelCauseFunc
	memory *memoryBudget

	models atomic.Pointer[[]Model]
	guards *guards

	choosing sync.Mutex // streams' networks are chosen by one at a time

	mu      sync.Mutex
	streams map[string]*stream // guarded by mu
	group   sync.WaitGroup
}

// New makes a Server, and takes up the streams that an earlier one has kept. The caller closes it.
func New(cfg Config, maker *jobs.Maker, log *zap.Logger) (*Server, error) {
	if cfg.Memory == 0 {
		cfg.Memory = DefaultMemory
	}
	s := &Server{cfg: cfg, maker: maker, log: log, memory: newMemoryBudget(cfg.Memory), streams: map[string]*stream{}}
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	s.guards = &guards{merges: cfg.Merges, maker: maker, log: log, fell: s.chooseNetworks, begun: time.Now()}
	s.guards.setGuards(cfg.Models)
	s.models.Store(&cfg.Models)
	if err := os.MkdirAll(cfg.State, 0o700); err != nil {
		return nil, err
	}
	kept, err := os.ReadDir(cfg.State)
	if err != nil {
		return nil, err
	}
	for _, entry := range kept {
		if !entry.IsDir() { // such as the lock of the directory
			continue
		}
		if err := s.takeUp(entry.Name()); err != nil {
			log.Error("a stream is not taken up", zap.String("stream", entry.Name()), zap.Error(err))
		}
	}
	return s, nil
}

// takeUp begins a stream that was kept.
func (s *Server) takeUp(name string) error {
	d, err := readDeclared(filepath.Join(s.cfg.State, name))
	if err != nil {
		return err
	}
	if d.Name != name {
		return fmt.Errorf("it declares %q", d.Name)
	}
	if d.Demand == nil {
		d.Demand = &demand{Rate: d.Rate}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.memory.Hold(d.Owner)
	held.Keep(d.Demand.Memory)
	if err := s.startStream(d.Spec, d.owner, held, *d.Demand); err != nil {
		held.End()
		return err
	}
	return nil
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
	errExists  = errors.New("the name is taken")
	errModel   = errors.New("there is no such model that looks at pictures")
	errNoFrame = errors.New("there is no frame")
)

// networkFor is what a stream's frames are looked at by.
func (s *Server) networkFor(spec *Spec) (*jobs.Network, error) {
	models := *s.models.Load()
	var there []string
	for i := range models {
		m := &models[i]
		if !m.Original {
			there = append(there, m.Names[0])
		}
		if !slices.Contains(m.Names, spec.Model) && (spec.Model != "" || m.Original || countOwn(models) != 1) {
			continue
		}
		decoder, err := vision.Find(m.Decoder)
		if err != nil {
			return nil, err
		}
		n := &jobs.Network{Model: m.Names[0], Image: m.Image, Decoder: decoder, Vision: vision.Options{Score: spec.Score, Wanted: spec.Classes}}
		if spec.Source == camera {
			n.Vision.Proposals = leastObjectness
		}
		return n, nil
	}
	if spec.Model == "" && len(there) > 1 {
		return nil, newFieldError("model", "model is missing, and %d models look at pictures; say which: %s", len(there), strings.Join(there, ", "))
	}
	return nil, fmt.Errorf("%w: %.200q; those with a decoder are %s", errModel, spec.Model, strings.Join(there, ", "))
}

// countOwn is how many models are no originals of others.
func countOwn(models []Model) (n int) {
	for i := range models {
		if !models[i].Original {
			n++
		}
	}
	return n
}

// SetModels sets the networks that streams may name. Streams of one that is gone wait until it comes back.
func (s *Server) SetModels(models []Model) {
	s.guards.setGuards(models)
	s.models.Store(&models)
	s.chooseNetworks()
}

// chooseNetworks says to each stream what its frames are looked at by.
func (s *Server) chooseNetworks() {
	s.choosing.Lock()
	defer s.choosing.Unlock()
	for _, st := range s.sortedStreams() {
		st.inference.setNetwork(s.guards.chooseNetwork(s.networkFor(&st.spec)))
	}
}

// addStream declares a stream, and begins it.
func (s *Server) addStream(ctx context.Context, spec Spec, by owner) error {
	if err := spec.check(); err != nil {
		return err
	}
	if err := s.permitSource(&spec, by); err != nil {
		return err
	}
	n, err := s.networkFor(&spec)
	if err != nil {
		return err
	}
	if err := s.maker.Check(n); err != nil {
		return err
	}
	if spec.Source == camera {
		m, err := spec.newMethod()
		if err == nil && m.Gradients {
			err = n.Decoder.CheckGradient()
		}
		if err != nil {
			return newFieldError("method", "method is %.80q, and of the model %s: %v", spec.Method, n.Model, err)
		}
	}
	if spec.Model == "" {
		spec.Model = n.Model // also when there are several
	}
	will := demand{Rate: spec.Rate}
	if spec.Source != camera && !spec.isRemote() {
		if will, err = s.probeFile(ctx, &spec); err != nil {
			return err
		}
	}
	return s.admitStream(ctx, &spec, n, will, func() error {
		if s.streams[spec.Name] != nil {
			return fmt.Errorf("%w: %s", errExists, spec.Name)
		}
		if err := s.checkStreamQuota(by.Owner); err != nil {
			return err
		}
		held := s.memory.Hold(by.Owner)
		if err := held.Grow(will.Memory, fmt.Sprintf("video of %d x %d pixels", will.Width, will.Height)); err != nil {
			return err
		}
		if err := s.persistStream(spec, by, held, will); err != nil {
			held.End()
			return fmt.Errorf("the stream cannot be kept in the directory of --video-state: %w", err)
		}
		return nil
	})
}

// checkStreamQuota says whether a key may declare one more. The caller holds mu.
func (s *Server) checkStreamQuota(key string) error {
	mine := 0
	for _, st := range s.streams {
		if st.by.Owner == key {
			mine++
		}
	}
	if most := int(budget.Share(key, int64(maxStreams-len(s.streams)+mine))); mine >= most {
		return engine.Errorf(engine.CodeOverloaded, "there are %d streams, %d of them this key's; of the %d that there may be it may have %d now", len(s.streams), mine, maxStreams, most)
	}
	return nil
}

// persistStream writes a stream down, and begins it. The caller holds mu.
func (s *Server) persistStream(spec Spec, by owner, held *memoryHold, will demand) error {
	dir := filepath.Join(s.cfg.State, spec.Name)
	err := os.RemoveAll(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = writeDeclared(dir, declared{spec, by, &will})
	}
	if err == nil {
		err = s.startStream(spec, by, held, will)
	}
	if err != nil {
		_ = os.RemoveAll(dir) // what is half there is not to be taken up
	}
	return err
}

// probeFile looks at a file.
func (s *Server) probeFile(ctx context.Context, spec *Spec) (demand, error) {
	path, err := spec.sourcePath(s.cfg.Files)
	if err != nil {
		return demand{}, err
	}
	clip, err := ffmpeg.Open(ctx, path, ffmpeg.Options{})
	if err != nil {
		return demand{}, newFieldError("source", "source: %v", errors.New(strings.ReplaceAll(err.Error(), path, spec.Source)))
	}
	defer clip.Close()
	info := clip.Info()
	takes, _ := sourceMemory(&info)
	will := demand{info.Rate, info.Width, info.Height, takes}
	return will.atMost(spec.Rate), nil
}

// startStream begins a stream, and lets what is held go at its end. The caller holds mu.
func (s *Server) startStream(spec Spec, by owner, held *memoryHold, will demand) error {
	dir := filepath.Join(s.cfg.State, spec.Name)
	kept, from, err := journal.Open(dir)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(s.ctx)
	st := &stream{
		spec: spec, by: by, dir: dir, log: s.log.With(zap.String("stream", spec.Name)), journal: kept,
		condition: condition{state: stateWaiting}, part: part{demand: will}, mail: make(chan mail), stop: stop, stopped: make(chan struct{}),
	}
	st.guards = s.guards
	st.inference = newInference(&st.spec, s.maker, &st.figure, st.log)
	st.inference.setNetwork(s.guards.chooseNetwork(s.networkFor(&spec)))
	s.streams[spec.Name] = st
	if _, err := os.Stat(filepath.Join(dir, endedFile)); err == nil {
		st.condition.setState(stateEnded, "")
		held.End()
		kept.Close()
		close(st.stopped)
		return nil
	}
	admit := func(ctx context.Context, d demand) error { return s.admitFound(ctx, st, d) }
	if spec.Source == camera {
		held.End() // what a camera sends is held as it comes
		st.intake = newCameraIntake(st, s.memory, admit)
		s.group.Go(func() { st.runActor(ctx, from) }) // ends with ctx
		return nil
	}
	reader := newSourceIntake(st, held, admit)
	st.intake = reader
	s.group.Go(func() { st.runActor(ctx, from) }) // ends with ctx
	play, err := s.player(st, from.Time)
	if err != nil {
		st.condition.setState(stateFailed, err.Error())
		return nil
	}
	s.group.Go(func() { reader.readSource(ctx, play) }) // ends with ctx, or before
	return nil
}

// player plays a stream's source, whose frames up to a time have their results.
func (s *Server) player(st *stream, after time.Duration) (player, error) {
	from := source.Source{Address: st.spec.Source, Rate: st.spec.Rate, After: after}
	if st.spec.isRemote() {
		from.Resolve = s.hostResolver(st.by)
		return func(ctx context.Context, to source.Stream) error { from.Follow(ctx, to); return ctx.Err() }, nil
	}
	var err error
	from.Address, err = st.spec.sourcePath(s.cfg.Files)
	return func(ctx context.Context, to source.Stream) error { return from.Play(ctx, st.spec.Loop, to) }, err
}

// findStream is a stream by its name. Of another's an owner hears what it hears of one that is not there.
func (s *Server) findStream(name string, by owner) (*stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.streams[name]; st != nil && by.ownsStream(st) {
		return st, nil
	}
	return nil, fmt.Errorf("%w: %.80q", errUnknown, name)
}

// sortedStreams are the streams by their names.
func (s *Server) sortedStreams() []*stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*stream, 0, len(s.streams))
	for _, name := range slices.Sorted(maps.Keys(s.streams)) {
		list = append(list, s.streams[name])
	}
	return list
}

// removeStream ends a stream, and forgets it.
func (s *Server) removeStream(st *stream) error {
	name := st.spec.Name
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

var errRemoved = errors.New("the stream was removed")
