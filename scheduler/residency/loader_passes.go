package residency

import (
	"fmt"
	"time"

	"github.com/prefillonly/prefillonly/engine"
)

// Begin makes room for a pass of a model, given what is asked of others, and holds its weights until End. It says what
// is to be dropped before, and whether there is such room. Unused says that the pass does not count as a use of the
// model.
func (d *Loader) Begin(m *Model, unused bool, asked func() []Demand) (drop []uint32, ok bool) {
	area := max(m.Info.Work, d.area) - d.area
	var demands []Demand
	if d.memory.Free() < int64(area) {
		demands = asked()
	}
	begin := d.memory.Begin
	if unused {
		begin = d.memory.BeginUnused
	}
	evict, ok := begin(m.number, int64(area), demands)
	if !ok {
		return nil, false
	}
	d.area += area
	return d.markDropped(evict), true
}

// End gives back what Begin took. The passes that are left work in so many bytes at most.
func (d *Loader) End(m *Model, work uint64) {
	d.memory.End(m.number, int64(d.area-work))
	d.area = work
}

// needBesideKept says what the weights and work areas of a model, of those to be kept and of those with promised deadlines take
// together, and whether there is so much.
func (m *Model) needBesideKept(now time.Duration) (need uint64, fits bool) {
	d := m.device
	counted := make(map[uint32]bool, len(m.Info.Weights))
	work := uint64(0)
	for _, o := range d.models {
		if o != m && !o.Kept() && !o.Promised(now) || o.failure.always {
			continue
		}
		work = max(work, o.Info.Work)
		for _, w := range o.Info.Weights {
			if !counted[w] {
				counted[w] = true
				need += d.Info.Weights[w].Bytes
			}
		}
	}
	need += work
	return need, d.Info.Memory == 0 || need <= d.Info.Memory
}

// Crowded says why a model finds no room beside those to be kept and those with promised deadlines; nil if it does.
func (m *Model) Crowded(now time.Duration) error {
	need, fits := m.needBesideKept(now)
	if fits {
		return nil
	}
	return fmt.Errorf("model %q and others with promised deadlines would take %s, %s has %s",
		m.Info.Name, formatGB(int64(need)), m.device.Name, formatGB(int64(m.device.Info.Memory)))
}

// Stuck notes since when a model for which jobs may wait has no room beside those with promised deadlines, and says why
// after some time.
func (m *Model) Stuck(now time.Duration, waits bool, after time.Duration) *engine.Error {
	need, fits := m.needBesideKept(now)
	if fits || !waits {
		m.stuck = 0
		return nil
	}
	if m.stuck == 0 {
		m.stuck = max(now, 1)
	}
	if now-m.stuck < after {
		return nil
	}
	return engine.Errorf(engine.CodeUnavailable, "model %q and those with promised deadlines need %s, %s has %s: it has had no room for %v",
		m.Info.Name, formatGB(int64(need)), m.device.Name, formatGB(int64(m.device.Info.Memory)), now-m.stuck)
}
