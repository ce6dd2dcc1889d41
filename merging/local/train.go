package local

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// sample is a frame that a model is trained on.
type sample struct {
	model  int
	number int // of those that the model was trained on

	loss      float32
	gradients [][]float32 // of the model's parameters
}

// warmSteps are those of a parameter that are smaller, until its moments are known.
const warmSteps = 20

// Train implements merging.Session.
func (s *session) Train(ctx context.Context, models []int, epochs, rate float64) ([]float64, error) {
	from, count, steps := make([]int, len(s.models)), make([]int, len(s.models)), 0
	models = slices.DeleteFunc(slices.Clone(models), func(i int) bool { return len(s.models[i].trained) == 0 })
	for _, i := range models {
		m := s.models[i]
		if err := s.prepareStep(ctx, i); err != nil {
			return nil, err
		}
		n := float64(len(m.feed.framesOf(0)))
		from[i] = int(s.epochs[i]*n + 1e-6)
		count[i] = int((s.epochs[i]+epochs)*n+1e-6) - from[i]
		steps = max(steps, (count[i]+s.o.Batch-1)/s.o.Batch)
	}
	losses, before := make([]float64, len(s.models)), slices.Clone(s.epochs)
	for k := range steps {
		var batch []*sample
		for _, i := range models {
			for n := from[i] + count[i]*k/steps; n < from[i]+count[i]*(k+1)/steps; n++ {
				batch = append(batch, &sample{model: i, number: n})
			}
		}
		if err := s.takeStep(ctx, batch, rate); err != nil {
			return nil, err
		}
		for _, x := range batch {
			losses[x.model] += float64(x.loss) / float64(count[x.model])
		}
		for _, i := range models {
			s.epochs[i] = before[i] + epochs*float64(k+1)/float64(steps)
		}
	}
	for _, i := range models {
		s.epochs[i] = before[i] + epochs
	}
	return losses, nil
}

// prepareStep has all workers ready to train a model.
func (s *session) prepareStep(ctx context.Context, at int) error {
	m := s.models[at]
	if err := m.readClip(ctx, s.o.FrameBytes); err != nil {
		return err
	}
	for _, w := range s.workers {
		if w.students[at] != nil {
			continue
		}
		var err error
		if w.students[at], err = newStudent(m, w.backend); err != nil {
			return err
		}
	}
	return nil
}

// takeStep moves all parameters once, by the mean gradient of each model's frames.
func (s *session) takeStep(ctx context.Context, batch []*sample, rate float64) error {
	err := s.splitWork(ctx, len(batch), func(worker, i int) error { return s.runBackward(s.workers[worker], batch[i]) })
	if err != nil {
		return err
	}
	frames := make([]int, len(s.models))
	for _, x := range batch {
		frames[x.model]++
	}
	gradients := map[*parameter][]float32{}
	for _, x := range batch {
		for k, u := range s.models[x.model].trained {
			sum := gradients[u.parameter]
			if sum == nil {
				sum = make([]float32, len(u.parameter.values))
				gradients[u.parameter] = sum
			}
			for i, g := range x.gradients[k] {
				sum[i] += g / float32(frames[x.model])
			}
		}
	}
	by := rule{plain: s.o.Descend}
	for _, p := range s.params {
		g := gradients[p]
		if g == nil || !finite(g) {
			continue
		}
		own := rate
		if !by.plain {
			own *= p.unit * min(1, float64(p.moments.Steps+1)/warmSteps)
		}
		by.moveValues(p.values, g, &p.moments, own)
		follow(p.average, p.values, p.moments.Steps)
	}
	return nil
}

// longest is of how many steps a mean is, about.
const longest = 50

// follow takes values after a step into their mean, in which older ones fade (Polyak and Juditsky, "Acceleration of stochastic approximation by
// averaging", 1992): it is steady where the values of single steps are not.
func follow(average, values []float32, steps int) {
	share := 1 / min(1+float32(steps)/4, longest)
	for i, v := range values {
		average[i] += share * (v - average[i])
	}
}

// finite says that there is a number in each place: steps that overflow are left out.
func finite(values []float32) bool {
	sum := 0.0
	for _, v := range values {
		sum += math.Abs(float64(v))
	}
	return !math.IsNaN(sum) && !math.IsInf(sum, 0)
}

// runBackward has a worker answer a frame by the original, and compute the student's loss on it and its gradients.
func (s *session) runBackward(w *worker, x *sample) error {
	m := s.models[x.model]
	p := s.drawFrame(x)
	data := p.writeInput(m.input)
	answers, err := w.originals[x.model].Run(m.shape, data)
	if err != nil {
		return fmt.Errorf("%s: %w", m.File, err)
	}
	x.loss, x.gradients, err = w.students[x.model].runBackward(data, answers)
	return err
}

// drawFrame is a frame of a model's feed: each once an epoch, in an order and altered as the seed says.
func (s *session) drawFrame(x *sample) picture {
	frames := s.models[x.model].feed.framesOf(0)
	epoch, model := uint64(x.number/len(frames)), uint64(x.model)
	order := rand.New(rand.NewPCG(s.seed, epoch<<16|model)).Perm(len(frames))
	p := frames[order[x.number%len(frames)]]
	if s.o.Unaltered {
		return p
	}
	return alterPicture(p, rand.New(rand.NewPCG(s.seed+1, uint64(x.number)<<16|model)))
}
