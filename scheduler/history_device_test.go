package scheduler

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// obey makes a device do what it is told, if that can be; it says whether it is to pause its pass.
func (h *poolHistory) obey(d *hostOfMany, m wire.Message) (pause bool) {
	if d.gone {
		return false
	}
	switch m := m.(type) {
	case *wire.Run:
		h.run(d, m)
	case *wire.Load:
		h.load(d, m)
	case *wire.Drop:
		h.drop(d, m)
	case *wire.Abort:
		d.abort(m.Pass)
	case *wire.Resume:
		h.resume(d, m.Pass)
	case *wire.Pause:
		return d.running != nil && d.running.Pass == m.Pass
	}
	return false
}

func (d *hostOfMany) passes() (list []*wire.Run) {
	for _, run := range slices.Concat([]*wire.Run{d.running, d.nested}, d.parked, d.prepares, d.lowest) {
		if run != nil {
			list = append(list, run)
		}
	}
	return list
}

func (d *hostOfMany) model(name string) *wire.ModelInfo {
	i := slices.IndexFunc(d.info.Models, func(m wire.ModelInfo) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return &d.info.Models[i]
}

func (h *poolHistory) run(d *hostOfMany, run *wire.Run) {
	m := d.model(run.Model)
	if m == nil || m.Reason != "" {
		h.t.Fatalf("%s is to run %s, which it has not", d.name, run.Model)
	}
	for _, w := range m.Weights {
		if !d.resident[w] {
			h.t.Fatalf("%s is to run %s, of which piece %d is not there", d.name, run.Model, w)
		}
	}
	h.seen.passes++
	switch {
	case run.Nested && (d.running == nil || d.nested != nil || !d.info.Nests || m.Tensors == nil):
		h.t.Fatalf("%s is to nest pass %d: it runs %v, in which %v", d.name, run.Pass, d.running, d.nested)
	case run.Nested:
		d.nested = run
		h.seen.nested++
	case run.Lowest && len(d.lowest) > 1:
		h.t.Fatalf("%s gets pass %d of lowest jobs, beside %d", d.name, run.Pass, len(d.lowest))
	case run.Lowest:
		d.lowest = append(d.lowest, run)
		h.seen.lowest++
		h.checkRoom(d, run)
	case d.running != nil:
		h.t.Fatalf("%s is to run pass %d while it runs %d", d.name, run.Pass, d.running.Pass)
	default:
		d.running = run
	}
	if _, ok := run.Items[0].Work.(*wire.TensorItem); ok {
		h.seen.tensors++
		if len(run.Items) > m.Tensors.MaxPassItems {
			h.t.Fatalf("a pass of %d items, the model takes %d", len(run.Items), m.Tensors.MaxPassItems)
		}
	}
	h.checkBytes(d)
}

func (h *poolHistory) load(d *hostOfMany, m *wire.Load) {
	if d.loading != nil {
		h.t.Fatalf("%s is to load while it loads", d.name)
	}
	if !d.greeted {
		h.t.Fatalf("%s is to load before it has answered a Welcome", d.name)
	}
	for _, w := range m.Weights {
		if d.resident[w] {
			h.t.Fatalf("%s is to load piece %d, which is there", d.name, w)
		}
	}
	h.seen.loads++
	d.loading = m
	h.checkBytes(d)
}

func (h *poolHistory) drop(d *hostOfMany, m *wire.Drop) {
	for _, w := range m.Weights {
		if !d.resident[w] {
			h.t.Fatalf("%s is to drop piece %d, which is not there", d.name, w)
		}
		for _, run := range d.passes() {
			if model := d.model(run.Model); model != nil && slices.Contains(model.Weights, w) {
				h.t.Fatalf("%s is to drop piece %d, which pass %d of %s needs", d.name, w, run.Pass, run.Model)
			}
		}
		delete(d.resident, w)
	}
	h.seen.drops++
}

// checkBytes holds that there is room for what is on the device, what is being loaded and what passes work in.
func (h *poolHistory) checkBytes(d *hostOfMany) {
	if d.info.Memory == 0 {
		return
	}
	used, work := uint64(0), uint64(0)
	for w := range d.resident {
		used += d.info.Weights[w].Bytes
	}
	if d.loading != nil {
		for _, w := range d.loading.Weights {
			used += d.info.Weights[w].Bytes
		}
	}
	for _, run := range d.passes() {
		if m := d.model(run.Model); m != nil {
			work = max(work, m.Work)
		}
	}
	if used+work > d.info.Memory {
		h.t.Fatalf("%s has %d bytes of weights, and passes work in %d; there are %d", d.name, used, work, d.info.Memory)
	}
}

func (d *hostOfMany) abort(pass wire.PassID) {
	is := func(run *wire.Run) bool { return run != nil && run.Pass == pass }
	if is(d.nested) {
		d.nested = nil
	}
	if is(d.running) {
		d.running, d.nested = d.nested, nil
	}
	d.parked, d.lowest = slices.DeleteFunc(d.parked, is), slices.DeleteFunc(d.lowest, is)
	if i := slices.IndexFunc(d.prepares, is); i >= 0 {
		d.prepares = slices.Delete(d.prepares, i, i+1)
		if i < d.prepared {
			d.prepared--
		}
	}
}

// paused lets a device obey a Pause, or end the pass first.
func (h *poolHistory) paused(d *hostOfMany) {
	run := d.running
	if run == nil || h.pick.IntN(4) == 0 {
		return
	}
	d.parked = append(d.parked, run)
	d.running, d.nested = d.nested, nil
	h.send(d.name, &wire.Paused{Pass: run.Pass, Share: 0.5})
}

func (h *poolHistory) resume(d *hostOfMany, pass wire.PassID) {
	i := slices.IndexFunc(d.parked, func(run *wire.Run) bool { return run.Pass == pass })
	if i < 0 || d.running != nil {
		h.t.Fatalf("%s is to resume pass %d, it has paused %v and runs %v", d.name, pass, d.parked, d.running)
	}
	d.running = d.parked[i]
	d.parked = slices.Delete(d.parked, i, i+1)
}

// TestHistoriesOfManyModels holds every policy to what must be on executors of many models: no pass without its
// weights, never more than the memory holds, no load of what is there and no drop of what is needed, and an answer for
// every job and every wish.
func TestHistoriesOfManyModels(t *testing.T) {
	for _, policy := range Policies() {
		t.Run(policy, func(t *testing.T) {
			var seen counts
			for seed := range *histories / 400 {
				rng := rand.New(rand.NewPCG(uint64(seed), 61))
				cfg := DefaultConfig()
				cfg.Policy = policy
				cfg.UserFairness = rng.IntN(2) == 0
				h := newPoolHistory(t, rng, cfg)
				h.seen = seen
				for range 150 {
					h.move()
				}
				h.drain()
				if seen = h.seen; t.Failed() {
					t.Fatalf("in history %d", seed)
				}
			}
			least := min(seen.passes, seen.nested, seen.lowest, seen.loads, seen.drops, seen.failed, seen.late, seen.refused, seen.tensors, seen.prepared)
			if least < *histories/2000 {
				t.Errorf("too little happened to tell: %+v", seen)
			}
		})
	}
}
