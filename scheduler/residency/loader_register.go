package residency

import (
	"fmt"
	"slices"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// Tell takes in what an executor says of itself: how much room there is, and how large pieces are, where that is not as it
// was. Its models are the caller's to remove, to add and to renew; then comes Found.
func (d *Loader) Tell(info *wire.ExecutorInfo) (known int) {
	before := d.Info.Weights
	d.Info, d.news = *info, d.news[:0]
	for i, w := range info.Weights {
		if w.Resident && d.memory.chunkByID(Chunk(i)) == nil {
			d.news = append(d.news, uint32(i))
		}
	}
	capacity := int64(unbounded)
	if info.Memory > 0 {
		capacity = int64(min(info.Memory, unbounded))
	}
	d.memory.SetCapacity(capacity)
	d.memory.SetRate(d.loadRate())
	for i, w := range before {
		if i < len(info.Weights) && info.Weights[i].Bytes != w.Bytes {
			d.memory.Resize(Chunk(i), int64(min(info.Weights[i].Bytes, unbounded)))
		}
	}
	d.users = append(d.users, make([][]*Model, max(len(info.Weights)-len(d.users), 0))...)
	return len(before)
}

// Found takes in which pieces are there at positions where no model had any before, and forgets models that are gone: what
// they share with others stays. What no model here needs is to be dropped, unless that has been said already, as it has of
// positions that no model has any more. Which models are there now is theirs to settle.
func (d *Loader) Found(known int, gone []*Model) {
	for _, m := range gone {
		d.forgetWeights(m.number)
	}
	for _, w := range d.news {
		has := func(m wire.ModelInfo) bool { return slices.Contains(m.Weights, w) }
		if !d.memory.Loaded(Chunk(w)) && (int(w) >= known || slices.ContainsFunc(d.Info.Models, has)) {
			d.stray = append(d.stray, w)
		}
	}
}

// forgetWeights has what nobody else needs of a model's weights dropped.
func (d *Loader) forgetWeights(n ModelID) {
	for _, c := range d.memory.Remove(n) {
		d.stray = append(d.stray, uint32(c))
	}
}

// Add tells the memory of a model. What is resident of it counts as loaded.
func (d *Loader) Add(m *Model) {
	d.models = append(d.models, m)
	d.registerModel(m)
}

func (d *Loader) registerModel(m *Model) {
	m.number = ModelID(d.numbers)
	d.numbers++
	if m.failure.always {
		return
	}
	spec := Spec{Area: int64(min(m.Info.Work, unbounded)), Rate: d.loadRate(), Keep: m.Kept()}
	for _, w := range m.Info.Weights {
		if int(w) >= len(d.Info.Weights) {
			m.Condemn("it has weights at position %d, the executor has %d", w, len(d.Info.Weights))
			return
		}
		spec.Chunks = append(spec.Chunks, SizedChunk{Chunk: Chunk(w), Bytes: int64(d.Info.Weights[w].Bytes)})
	}
	if err := d.memory.Register(m.number, spec); err != nil {
		m.Condemn("%s", d.tooLarge(m, err))
		return
	}
	if spec.Keep {
		d.keepers = append(d.keepers, m)
	}
	for _, w := range m.Info.Weights {
		d.users[w] = append(d.users[w], m)
	}
	m.Settle()
}

// Renew tells the memory of other weights of a model, which may have so many passes.
func (d *Loader) Renew(m *Model, passes int) {
	old := m.number
	d.detachModel(m)
	d.registerModel(m)
	if m.failure.always {
		m.number = old // its passes end
		return
	}
	for range passes {
		_, _ = d.memory.Begin(m.number, 0, nil)
		d.memory.End(old, 0)
	}
	d.forgetWeights(old)
}

// Remove takes a model that is gone from the executor. Its weights stay until Found.
func (d *Loader) Remove(m *Model) {
	if d.loadFor == m {
		d.loadFor = nil
	}
	d.models, d.loaded = withoutModel(d.models, m), withoutModel(d.loaded, m)
	d.detachModel(m)
}

// detachModel takes a model from those that use and keep pieces.
func (d *Loader) detachModel(m *Model) {
	for i := range d.users {
		d.users[i] = withoutModel(d.users[i], m)
	}
	d.keepers = withoutModel(d.keepers, m)
	_ = d.memory.SetKeep(m.number, false)
}

// tooLarge says in words why a model cannot be registered, or kept.
func (d *Loader) tooLarge(m *Model, err error) string {
	t, ok := err.(*TooLarge)
	if !ok {
		return err.Error()
	}
	name := m.Info.Name
	for _, other := range d.models {
		if other.number == t.Model {
			name = other.Info.Name
		}
	}
	return fmt.Sprintf("model %q needs %s for its weights and a pass; the device has %s, of which %s are kept for others",
		name, formatGB(t.Needs), formatGB(t.Capacity), formatGB(t.Kept))
}

func formatGB(bytes int64) string { return fmt.Sprintf("%.2f GB", float64(bytes)/1e9) }
