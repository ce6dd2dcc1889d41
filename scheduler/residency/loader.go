package residency

import (
	"fmt"
	"math"

	"github.com/prefillonly/prefillonly/engine/wire"
)

const (
	// unmeasuredRate stands for the bytes a second of a device that has not told.
	unmeasuredRate = 1e9
	// unbounded is more bytes than any device has.
	unbounded = 1 << 60
)

// Loader is what an executor has on its device of its models' weights: which of its models are there, are kept there or have
// failed to come, and what the executor is told to load and to drop for it. What comes next, and what makes room, is Memory's
// to say. A piece is a Chunk of the number of its position in wire.ExecutorInfo.Weights.
type Loader struct {
	Name string            // of the executor
	Info wire.ExecutorInfo // what it told last
	// Ledger is of the streams with promised deadlines: what they need is there before all others.
	Ledger Reservations

	memory  *Memory
	models  []*Model
	users   [][]*Model // of each piece
	loaded  []*Model   // those with weights that are all there
	keepers []*Model   // those that are to be kept always
	numbers int        // given to models so far
	loading *wire.Load // not answered yet
	loadFor *Model     // whose it is; nil if that is gone
	stray   []uint32   // pieces that no model needs any more, to be dropped
	news    []uint32   // pieces that are there where no model had any, by what the executor told last
	serial  uint64     // of the last Load
	area    uint64     // of work memory, the largest of the models in passes
}

// NewLoader makes the device of an executor. Aside says that loads take none of the device's own time.
func NewLoader(name string, aside bool) *Loader {
	return &Loader{Name: name, memory: NewMemory(0, !aside)}
}

// Loaded lists the models with weights that are all there, in the order in which they came.
func (d *Loader) Loaded() []*Model { return d.loaded }

// Keepers lists the models that are to be kept always.
func (d *Loader) Keepers() []*Model { return d.keepers }

// Loading says that a Load has not been answered yet.
func (d *Loader) Loading() bool { return d.loading != nil }

// Used is the bytes of weights that are there or on their way.
func (d *Loader) Used() uint64 { return uint64(d.memory.Used()) - d.area }

// loadRate is the bytes of weights that are loaded a second.
func (d *Loader) loadRate() float64 {
	if r := d.Info.LoadRate; r > 0 && !math.IsInf(r, 0) {
		return r
	}
	return unmeasuredRate
}

// Strays takes the pieces that no model needs any more and that are to be dropped.
func (d *Loader) Strays() (pieces []uint32) {
	pieces, d.stray = d.stray, nil
	return pieces
}

// CheckIntegrity holds the device to its invariants, where passes work in so many bytes at most.
func (d *Loader) CheckIntegrity(work uint64) error {
	switch {
	case work != d.area:
		return fmt.Errorf("passes work in %d bytes, counted %d", work, d.area)
	case d.memory.Free() < 0:
		return fmt.Errorf("%d bytes more are used than there are", -d.memory.Free())
	}
	for _, m := range d.models {
		if !m.failure.always && m.ready != d.memory.Ready(m.number) {
			return fmt.Errorf("model %s is taken to be loaded: %v", m.Info.Name, m.ready)
		}
	}
	return nil
}
