package residency

import (
	"fmt"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// Model is the weights of a model on an executor.
type Model struct {
	ready bool // all weights are there

	Info wire.ModelInfo // what the executor told last

	device    *Loader
	stats     *wire.ModelStats // of the model on all executors
	number    ModelID
	readyAt   time.Duration // when they last came; 0: they were there from the first
	keep      wire.Keep
	unloading bool // takes no new job, and is dropped when it has none
	failure   failure
	arrivals  Arrivals      // of jobs but the lowest
	used      time.Duration // when such a job came last; 0: none has
	idleSince time.Duration
	stuck     time.Duration // since when it has had no room beside promises; 0: it has
}

// failure is why a model cannot be run.
type failure struct {
	reason string        // of the last time; may be empty
	always bool          // it never can
	until  time.Duration // when it is tried again
	wait   time.Duration // between the last two tries
}

// A load that has failed is tried again after shortestWait, then after twice as long each time.
const shortestWait, longestWait = time.Second, time.Minute

// NewModel makes a model that the device knows nothing of yet. How often it is loaded is counted in stats.
func (d *Loader) NewModel(info wire.ModelInfo, stats *wire.ModelStats, now time.Duration) Model {
	return Model{
		Info: info, device: d, stats: stats, keep: info.Keep, idleSince: now,
		failure: failure{reason: info.Reason, always: info.Reason != ""},
	}
}

// Ready says that all weights are there.
func (m *Model) Ready() bool { return m.ready }

// ReadyAt is when the weights last came; 0: they were there from the first.
func (m *Model) ReadyAt() time.Duration { return m.readyAt }

// Kept says that the model is to be kept always.
func (m *Model) Kept() bool { return m.keep == wire.KeepAlways }

// Keeping is how the model is kept now.
func (m *Model) Keeping() wire.Keep { return m.keep }

// Useless says that the executor can never run the model.
func (m *Model) Useless() bool { return m.failure.always }

// Reason is why the model could not be run the last time; it may be empty.
func (m *Model) Reason() string { return m.failure.reason }

// Condemn notes that the executor can never run the model.
func (m *Model) Condemn(format string, args ...any) {
	m.failure.reason, m.failure.always = fmt.Sprintf(format, args...), true
}

// hasFailed says that the model cannot be run now.
func (m *Model) hasFailed(now time.Duration) bool { return m.failure.always || now < m.failure.until }

// Closed says why the model takes no job now; nil if it does.
func (m *Model) Closed(now time.Duration) *engine.Error {
	switch {
	case m.hasFailed(now):
		return m.Unusable()
	case m.unloading:
		return engine.Errorf(engine.CodeUnavailable, "model %q is being unloaded", m.Info.Name)
	}
	return nil
}

// Unusable is what a job of a model that cannot be run is told.
func (m *Model) Unusable() *engine.Error {
	return engine.Errorf(engine.CodeUnavailable, "model %q cannot be run on %s: %s", m.Info.Name, m.device.Name, m.failure.reason)
}

// State is how the model is on this executor.
func (m *Model) State(now time.Duration) wire.ModelState {
	switch {
	case m.hasFailed(now):
		return wire.ModelFailed
	case m.unloading:
		return wire.ModelUnloading
	case m.ready:
		return wire.ModelReady
	case m.Comes():
		return wire.ModelLoading
	}
	return wire.ModelAbsent
}

// Comes says that weights are on their way for this model.
func (m *Model) Comes() bool { return m.device.loadFor == m }

// Bytes is the size of the weights.
func (m *Model) Bytes() (sum uint64) {
	for _, w := range m.Info.Weights {
		if int(w) < len(m.device.Info.Weights) {
			sum += m.device.Info.Weights[w].Bytes
		}
	}
	return sum
}

// Missing is the seconds until the model could run, for what is missing of its weights and what of others' is on its
// way.
func (m *Model) Missing() float64 {
	if m.ready {
		return 0
	}
	d := m.device
	seconds := d.memory.Load(m.number)
	if d.loading != nil && d.loadFor != m {
		for _, w := range d.loading.Weights {
			seconds += float64(d.Info.Weights[w].Bytes) / d.loadRate()
		}
	}
	return seconds
}

// Lacks says that there is no free memory for what is missing of the weights.
func (m *Model) Lacks() bool {
	d := m.device
	return !m.ready && float64(d.memory.Free()) < d.memory.Load(m.number)*d.loadRate()
}

// Number is how residency names the model.
func (m *Model) Number() ModelID { return m.number }

// Set begins to load the model and to keep it, or to unload it: from then on it takes no new job. It says why it cannot be
// kept.
func (m *Model) Set(unload bool) error {
	keep := wire.KeepAlways
	if unload {
		keep = wire.KeepOnDemand
	}
	if err := m.Keep(keep); err != nil {
		return err
	}
	m.unloading = unload
	m.failure.until = 0
	return nil
}

// Reopen lets a model that has been unloaded take jobs again: it is loaded when one comes.
func (m *Model) Reopen() { m.unloading = false }

// IsLoaded says whether the model is there, or why it cannot be.
func (m *Model) IsLoaded(now time.Duration) (loaded bool, err *engine.Error) {
	if now < m.failure.until {
		return false, m.Unusable()
	}
	return m.ready, nil
}

// Keep changes how the model is kept; it says why that cannot be.
func (m *Model) Keep(keep wire.Keep) error {
	if err := m.device.memory.SetKeep(m.number, keep == wire.KeepAlways); err != nil {
		return fmt.Errorf("%s", m.device.tooLarge(m, err))
	}
	m.keep = keep
	m.setSuspended(false)
	return nil
}

// setSuspended takes a model that is to be kept out of those that are loaded, or back among them.
func (m *Model) setSuspended(suspended bool) {
	d := m.device
	d.keepers = withoutModel(d.keepers, m)
	keep := m.Kept() && !suspended
	if err := d.memory.SetKeep(m.number, keep); err == nil && keep {
		d.keepers = append(d.keepers, m)
	}
}

// Settle notes whether all of the weights are there.
func (m *Model) Settle() {
	if m.failure.always {
		return
	}
	d := m.device
	ready := d.memory.Ready(m.number)
	if ready == m.ready {
		return
	}
	m.ready = ready
	if len(m.Info.Weights) == 0 {
		return
	}
	if ready {
		d.loaded = append(d.loaded, m)
		m.failure = failure{}
	} else {
		d.loaded = withoutModel(d.loaded, m)
		m.stats.Drops++
	}
}

// withoutModel takes a model out of a list.
func withoutModel(list []*Model, m *Model) []*Model {
	return slices.DeleteFunc(list, func(o *Model) bool { return o == m })
}

// Promised says that a stream with promised deadlines needs the model.
func (m *Model) Promised(now time.Duration) bool {
	return m.device.Ledger.Needs(now.Seconds(), m.Info.Name)
}

// Came notes that a job, but no lowest one, has come for the model.
func (m *Model) Came(now time.Duration) {
	m.arrivals.Add(now.Seconds())
	m.used = max(now, 1)
}

// NextJob is in how many seconds the next such job is expected.
func (m *Model) NextJob(now time.Duration) float64 { return m.arrivals.Next(now.Seconds()) }

// courtesy is how long a model is left where it is for jobs that may come after the last one, before it makes room for
// lowest jobs of another model: the longer of this and so many times what it takes to load it.
const (
	courtesy      = time.Minute
	courtesyLoads = 20
)

// InUse says that jobs but the lowest have come lately.
func (m *Model) InUse(now time.Duration) bool {
	load := time.Duration(float64(m.Bytes()) / m.device.loadRate() * float64(time.Second))
	return m.used > 0 && now-m.used < max(courtesy, courtesyLoads*load)
}

// IdleFrom notes that no job waits for the model any more.
func (m *Model) IdleFrom(now time.Duration) { m.idleSince = now }

// Tend says which pieces are to be dropped of a model for which no job waits, as it has been idle for as long as it is
// kept, or is to be unloaded. One that is to be kept and has failed is tried again.
func (m *Model) Tend(now time.Duration, waits bool) (drop []uint32) {
	if m.failure.always {
		return nil
	}
	if m.Kept() && m.failure.until > 0 && now >= m.failure.until {
		m.failure.until = 0
		m.setSuspended(false)
	}
	idle := m.ready && m.keep == wire.KeepIdle && now-m.idleSince >= m.Info.Idle
	if waits || !m.unloading && !idle {
		return nil
	}
	return m.device.markDropped(m.device.memory.Unload(m.number))
}
