package presets

import (
	"slices"
	"strconv"
	"time"

	"github.com/prefillonly/prefillonly/merging/published"
)

// turns is the loop by which the GEMEL paper's authors simulate their edge schedule, with what it takes for granted, so that its
// published outcomes can be had again; nexus is the same order in a world where these do not hold. All cameras are in phase. Models
// take turns in the order given and the device stands still until the model whose turn it is has a frame. What ran last makes
// room, whole, and what a model shares counts for the one resident model that has most of it. A load goes on beside the pass before,
// from its beginning, if that pass's memory and the model's fit, whatever else is there. The last frame is never late.
type turns struct {
	models   []turnModel
	shared   [][]int64 // bytes that models have in common
	capacity int64
	frame    float64 // ms between frames
	lives    float64 // ms

	clock     float64 // ms
	resident  []int   // models, the one that ran last at the end
	waited    float64 // ms, for loads
	evictions int
}

// turnModel is what the loop knows of a model, and where it is in its frames.
type turnModel struct {
	run, load     float64 // ms; of a pass of its batch, and of all of its weights
	weights, with int64   // bytes; without and with what the pass works in
	batch         int

	arrived int       // frames
	times   []float64 // ms, of all frames
	served  []bool    // frames up to now; those after are neither served nor skipped
}

// turnFrames is how many frames each camera has.
const turnFrames = 3000

// TurnsOutcome is what the loop found.
type TurnsOutcome struct {
	FrameShares
	Waited    float64 // share of the time in which nothing ran since weights were loaded
	Evictions int     // of models
}

// PublishedShares are the shares as they are published, in hundredths.
func (o *TurnsOutcome) PublishedShares() (list []float64) {
	for _, s := range o.Shares {
		rounded, _ := strconv.ParseFloat(strconv.FormatFloat(s, 'f', 2, 64), 64)
		list = append(list, rounded)
	}
	return list
}

// simulateTurns runs all frames; ok is false where a model has no room for its batch even alone.
func (t *turns) simulateTurns() (o *TurnsOutcome, ok bool) {
	for i := range t.models {
		for n := 0.0; len(t.models[i].times) < turnFrames; n += t.frame {
			t.models[i].times = append(t.models[i].times, n)
		}
	}
	for t.hasFrames() {
		for i := range t.models {
			if !t.bringModel(i) {
				return nil, false
			}
			t.serveFrames(&t.models[i])
		}
	}
	o = &TurnsOutcome{Waited: t.waited / t.clock, Evictions: t.evictions}
	for _, m := range t.models {
		o.add(m.served, 1000/t.frame)
	}
	return o, true
}

func (t *turns) hasFrames() bool {
	return slices.ContainsFunc(t.models, func(m turnModel) bool { return len(m.served) < turnFrames })
}

// bringModel loads a model, if it is not there, and makes room for its pass; it says whether there can be room.
func (t *turns) bringModel(i int) bool {
	m, before := &t.models[i], &t.models[(i+len(t.models)-1)%len(t.models)]
	there := slices.Contains(t.resident, i)
	need := m.with
	for _, k := range t.resident {
		if k != i {
			need += min(t.ownBytes(k, t.resident), max(0, t.models[k].weights-t.shared[k][i]))
		}
	}
	t.resident = slices.DeleteFunc(t.resident, func(k int) bool { return k == i })
	for need > t.capacity {
		last := len(t.resident) - 1
		if last < 0 {
			return false
		}
		need -= t.ownBytes(t.resident[last], t.resident)
		t.resident = t.resident[:last]
		t.evictions++
	}
	load := 0.0
	if !there {
		load = m.load * float64(t.ownBytes(i, t.resident)) / float64(m.weights)
	}
	t.resident = append(t.resident, i)
	if t.ownBytes(i, t.resident)+before.with <= t.capacity {
		load = max(0, load-before.run)
	}
	t.clock += load
	t.waited += load
	return true
}

// ownBytes is what a model has that the one of some others which has most of it has not.
func (t *turns) ownBytes(i int, others []int) int64 {
	m, shared := &t.models[i], int64(0)
	for _, k := range others {
		if k != i {
			shared = max(shared, t.shared[i][k])
		}
	}
	return max(0, m.weights-shared)
}

// serveFrames runs the newest frames of a model, once there are any in time.
func (t *turns) serveFrames(m *turnModel) {
	for {
		for m.arrived < turnFrames && m.times[m.arrived] <= t.clock {
			m.arrived++
		}
		first := max(len(m.served), m.arrived-m.batch)
		inTime := slices.ContainsFunc(m.times[first:m.arrived], func(at float64) bool {
			return at+t.lives >= t.clock+m.run || at == m.times[turnFrames-1]
		})
		for n := len(m.served); n < m.arrived; n++ {
			m.served = append(m.served, inTime && n >= first)
		}
		switch {
		case inTime:
			t.clock += m.run
			return
		case m.arrived == turnFrames:
			return
		}
		t.clock++
	}
}

// Turns is a workload in the published loop.
type Turns struct {
	Workload Workload
	Memory   Memory
	Sharing  Sharing
	Lives    time.Duration // a frame
	Rate     float64       // frames a second
}

// Run simulates the setting under the best batches; models that share most take turns beside each other, whatever they do share.
// It is nil if no batch of one frame has room.
func (s Turns) Run() *TurnsOutcome {
	order := arrangeModels(s.Workload.sharedBytes(Optimal))
	models := s.Workload.models
	s.Workload.models = nil
	for _, i := range order {
		s.Workload.models = append(s.Workload.models, models[i])
	}
	shared := s.Workload.sharedBytes(s.Sharing)
	o, _ := bestPlan(s.Workload, batchChoices, func(p plan) (*TurnsOutcome, []float64, error) {
		o, possible := s.newTurns(p, shared).simulateTurns()
		if !possible {
			return nil, nil, nil
		}
		return o, o.Shares, nil
	})
	return o
}

// newTurns is the loop on a setting.
func (s Turns) newTurns(p plan, shared [][]int64) *turns {
	w := s.Workload
	t := &turns{shared: shared, capacity: w.deviceCapacity(s.Memory), frame: 1000 / s.Rate, lives: s.Lives.Seconds() * 1e3}
	archs := architecturesByName()
	for _, e := range w.models {
		a, n := archs[e.Architecture], p[e.Architecture].batch
		t.models = append(t.models, turnModel{
			run: a.run[n-1].Seconds() * 1e3, load: float64(a.weights) / a.rate * 1e3, weights: a.weights, with: a.weights + a.area[n-1], batch: n,
		})
	}
	return t
}

// RunCase simulates a published case; possible is false where a pass has no room even alone.
func RunCase(c published.Case) (o *TurnsOutcome, possible bool) {
	w, p := Workload{}, plan{}
	for i, name := range c.Architectures {
		w.models = append(w.models, published.Entry{Architecture: name, Feed: strconv.Itoa(i), Classes: 4})
		p[name] = choice{batch: c.Batches[i]}
	}
	lives := time.Duration(c.Lives) * time.Millisecond
	return Turns{w, Memory(c.Memory), Sharing(c.Sharing), lives, c.Rate}.newTurns(p, w.sharedBytes(Sharing(c.Sharing))).simulateTurns()
}
