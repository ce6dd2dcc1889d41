package residency

import (
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// TestPieceWhereNoModelHadOne: a piece that an executor says is there counts as that if no model had one at its position before,
// as after an exchange, and is to be dropped if no model can have it; at a position that no model has any more nothing is.
func TestPieceWhereNoModelHadOne(t *testing.T) {
	d, a, b := newTestLoader(t)
	d.Remove(a)
	d.Found(3, []*Model{a})
	if drop := d.Strays(); len(drop) != 0 {
		t.Fatalf("pieces %v that were not there are to be dropped", drop)
	}
	info := wire.ExecutorInfo{
		Memory: 200, LoadRate: 1000, Weights: []wire.Weight{{Bytes: 80, Resident: true}, {Bytes: 100, Resident: true}, {Bytes: 100}},
		Models: []wire.ModelInfo{{Name: "c", Weights: []uint32{0}}},
	}
	known := d.Tell(&info)
	c := d.NewModel(info.Models[0], new(wire.ModelStats), 0)
	d.Add(&c)
	d.Found(known, nil)
	c.Settle()
	if !c.Ready() || b.Ready() || d.Used() != 80 {
		t.Fatalf("the new model is ready: %t, the other, of which the executor was told before: %t; %d bytes are used", c.Ready(), b.Ready(), d.Used())
	}
	info.Models = nil
	known = d.Tell(&info)
	d.Remove(&c)
	d.Found(known, []*Model{&c})
	if drop := d.Strays(); !slices.Equal(drop, []uint32{0}) {
		t.Fatalf("pieces %v are to be dropped, want 0", drop)
	}
	d.Found(d.Tell(&info), nil)
	if drop := d.Strays(); len(drop) != 0 {
		t.Fatalf("pieces %v are to be dropped a second time", drop)
	}
	info.Models = []wire.ModelInfo{{Name: "too large", Weights: []uint32{0}}}
	d.Found(d.Tell(&info), nil)
	if drop := d.Strays(); !slices.Equal(drop, []uint32{0}) {
		t.Fatalf("of a model that cannot be here %v are to be dropped, want 0", drop)
	}
}
