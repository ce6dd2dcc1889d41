package local

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/prefillonly/prefillonly/engine/dnn"
	"github.com/prefillonly/prefillonly/engine/dnn/direct"
	"github.com/prefillonly/prefillonly/merging"
	"github.com/prefillonly/prefillonly/videoext"
)

// fewestObjects are those by which a model can be judged.
const fewestObjects = 100

// Evaluate implements merging.Session.
func (s *session) Evaluate(ctx context.Context, at int, split merging.Split) (merging.Score, error) {
	m := s.models[at]
	if err := m.readClip(ctx, s.o.FrameBytes); err != nil {
		return merging.Score{}, err
	}
	frames := s.sessionFrames(at, split)
	if m.truth[split] == nil {
		var originals []*direct.Network
		for _, w := range s.workers {
			originals = append(originals, w.originals[at])
		}
		found, err := s.inferFrame(ctx, m, originals, frames)
		if err != nil {
			return merging.Score{}, err
		}
		m.truth[split] = found
	}
	found, err := s.findMerged(ctx, m, frames, m.truth[split])
	if err != nil {
		return merging.Score{}, err
	}
	score := scoreFindings(m.truth[split], found, s.seed)
	return score, m.checkScore(score, split)
}

// checkScore says why a score tells nothing.
func (m *model) checkScore(score merging.Score, split merging.Split) error {
	if split != merging.Training && score.Objects < fewestObjects {
		return fmt.Errorf("%s: model %s cannot be judged: %d objects in the %d frames held out, want %d", m.Clip, m.Name, score.Objects, score.Frames, fewestObjects)
	}
	return nil
}

// sessionFrames are those of a split, as it has them.
func (s *session) sessionFrames(at int, split merging.Split) []picture {
	frames := s.models[at].feed.framesOf(split)
	if split == merging.Training || split == merging.HeldOut {
		return frames
	}
	views, random := make([]picture, len(frames)), rand.New(rand.NewPCG(s.seed, uint64(split)))
	for i, p := range frames {
		views[i] = view(p, split, random)
	}
	return views
}

// findMerged is what a model finds with the weights that it has now, as those who serve its file with them find it.
func (s *session) findMerged(ctx context.Context, m *model, frames []picture, truth []videoext.Findings) ([]videoext.Findings, error) {
	constants := m.changedConstants()
	if len(constants) == 0 {
		return truth, nil
	}
	network, err := dnn.New(m.copyGraph(constants), "", dnn.Options{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.File, err)
	}
	networks := make([]*direct.Network, len(s.workers))
	for i, w := range s.workers {
		if networks[i], err = direct.New(network, w.backend); err != nil {
			return nil, fmt.Errorf("%s: %w", m.File, err)
		}
		defer networks[i].Close()
	}
	return s.inferFrame(ctx, m, networks, frames)
}

// inferFrame is what networks of a model, one of each worker, find in frames.
func (s *session) inferFrame(ctx context.Context, m *model, networks []*direct.Network, frames []picture) ([]videoext.Findings, error) {
	found := make([]videoext.Findings, len(frames))
	return found, s.splitWork(ctx, len(frames), func(worker, i int) error {
		outputs, err := networks[worker].Run(m.shape, frames[i].writeInput(m.input))
		if err != nil {
			return fmt.Errorf("%s: %w", m.File, err)
		}
		found[i], err = m.readFindings(outputs, frames[i])
		return err
	})
}
