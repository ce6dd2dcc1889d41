package mergingtest

import (
	"bytes"
	"context"
	"encoding/gob"
	"maps"
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/onnx"
	"github.com/prefillonly/prefillonly/engine/inspect"
	"github.com/prefillonly/prefillonly/merging"
)

// Trainer opens sessions in which a model comes near its file's score, unless it adopts a layer that it must not.
type Trainer struct {
	Refuses func(t merging.Tie, model int) bool // nil: none
	Objects int                                 // of each held-out feed; 0: 1000
	Learns  func(epochs float64) float64        // a model's score; nil: an epoch closes three quarters of the gap to 1
	Trained func()                              // is called after each part of an epoch
}

// Exponential is a score that comes near 1 by a power of e in an epoch.
func Exponential(power float64) func(epochs float64) float64 {
	return func(epochs float64) float64 { return 1 - math.Exp(-power*epochs) }
}

// Open reads the models' files; those without a file have no constants.
func (t Trainer) Open(_ context.Context, models []merging.TrainedModel, seed uint64) (merging.Session, error) {
	s := &Session{trainer: t, models: models, state: state{Seed: seed, Epochs: make([]float64, len(models))}}
	for _, m := range models {
		f := &file{weights: map[string]string{}, elements: map[string][]float32{}}
		if m.File != "" {
			if err := f.read(m.File); err != nil {
				return nil, err
			}
		}
		s.files = append(s.files, f)
	}
	return s, nil
}

// Session is one of a Trainer.
type Session struct {
	trainer Trainer
	models  []merging.TrainedModel
	files   []*file
	state   state
}

type state struct {
	Seed   uint64
	Ties   []merging.Tie
	Epochs []float64 // by model
}

type file struct {
	weights  map[string]string // constants, by layer
	elements map[string][]float32
}

func (f *file) read(path string) error {
	m, err := onnx.Open(path)
	if err != nil {
		return err
	}
	defer m.Close()
	for _, l := range inspect.Layers(m.Graph) {
		f.weights[l.Name] = l.Weights.Name
	}
	for _, n := range m.Graph.Nodes {
		for _, v := range n.In {
			if v != nil && v.Const != nil && v.Const.Type.String() == "FP32" {
				f.elements[v.Name] = floats(v.Const)
			}
		}
	}
	return nil
}

func floats(t *graph.Tensor) (list []float32) {
	for _, x := range t.Floats() {
		list = append(list, float32(x))
	}
	return list
}

// Tie begins with models that know nothing, but for those that are tied as before.
func (s *Session) Tie(ties []merging.Tie) error {
	for i := range s.models {
		if !maps.Equal(donors(s.state.Ties, i), donors(ties, i)) {
			s.state.Epochs[i] = 0
		}
	}
	s.state.Ties = ties
	return nil
}

// donors are those of the layers in which a model is trained.
func donors(ties []merging.Tie, model int) map[string]int {
	by := map[string]int{}
	for _, t := range ties {
		for _, m := range t.Members {
			if m.Model == model && t.Donor != model {
				by[m.Layer] = t.Donor
			}
		}
	}
	return by
}

// trains says whether a model is trained under a tie.
func trains(t merging.Tie, model int) bool {
	return t.Donor != model && slices.ContainsFunc(t.Members, func(m merging.Member) bool { return m.Model == model })
}

// Train lets time pass.
func (s *Session) Train(ctx context.Context, models []int, epochs, _ float64) (losses []float64, err error) {
	for i := range s.models {
		if slices.Contains(models, i) && slices.ContainsFunc(s.state.Ties, func(t merging.Tie) bool { return trains(t, i) }) {
			s.state.Epochs[i] += epochs
		}
		losses = append(losses, 1-s.score(i))
	}
	if s.trainer.Trained != nil {
		s.trainer.Trained()
	}
	return losses, ctx.Err()
}

// score is 1 of a model that is as its file.
func (s *Session) score(model int) float64 {
	score, learns := 1., s.trainer.Learns
	if learns == nil {
		learns = Exponential(1.5)
	}
	for _, t := range s.state.Ties {
		if trains(t, model) {
			score = min(score, learns(s.state.Epochs[model]))
			if s.trainer.Refuses != nil && s.trainer.Refuses(t, model) {
				score = min(score, .5)
			}
		}
	}
	return score
}

// Evaluate gives an interval of 2 points.
func (s *Session) Evaluate(_ context.Context, model int, _ merging.Split) (merging.Score, error) {
	objects := s.trainer.Objects
	if objects == 0 {
		objects = 1000
	}
	v := s.score(model)
	return merging.Score{Value: v, Low: max(0, v-.01*min(1, 10*(1-v))), High: min(1, v+.01), Frames: 100, Objects: objects}, nil
}

// Snapshot is all there is.
func (s *Session) Snapshot() ([]byte, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(s.state)
	return b.Bytes(), err
}

// Restore reads a snapshot.
func (s *Session) Restore(snapshot []byte) error {
	s.state = state{}
	return gob.NewDecoder(bytes.NewReader(snapshot)).Decode(&s.state)
}

// Constants are, of a model that is trained, the weights of ties and, in proportion to its epochs, other elements elsewhere.
func (s *Session) Constants(model int) map[string][]float32 {
	changed, tied := map[string][]float32{}, map[string]bool{}
	f, trained := s.files[model], false
	for _, t := range s.state.Ties {
		trained = trained || trains(t, model)
		at := slices.IndexFunc(t.Members, func(m merging.Member) bool { return m.Model == model })
		if at < 0 {
			continue
		}
		from := t.Members[0]
		if t.Donor >= 0 {
			from = t.Members[slices.IndexFunc(t.Members, func(m merging.Member) bool { return m.Model == t.Donor })]
		}
		name := f.weights[t.Members[at].Layer]
		tied[name] = true
		elements := slices.Clone(s.files[from.Model].elements[s.files[from.Model].weights[from.Layer]])
		if t.Donor == merging.NoDonor {
			scale(elements, 1+float32(s.state.Epochs[from.Model])/16)
		}
		if t.Donor != model {
			changed[name] = elements
		}
	}
	for name, elements := range f.elements {
		if trained && !tied[name] {
			changed[name] = slices.Clone(elements)
			scale(changed[name], 1+float32(s.state.Epochs[model])/16+float32(s.state.Seed)/256)
		}
	}
	return changed
}

func scale(elements []float32, by float32) {
	for i := range elements {
		elements[i] *= by
	}
}

// Close does nothing.
func (s *Session) Close() {}
