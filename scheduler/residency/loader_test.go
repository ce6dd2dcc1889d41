package residency

import (
	"slices"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// newTestLoader is one with room for two of three pieces of 100 bytes: two models have one each, and share the third.
func newTestLoader(t *testing.T) (d *Loader, a, b *Model) {
	t.Helper()
	d = NewLoader("gpu-0", true)
	known := d.Tell(&wire.ExecutorInfo{Memory: 200, LoadRate: 1000, Weights: []wire.Weight{{Bytes: 100}, {Bytes: 100}, {Bytes: 100}}})
	add := func(name string, weights ...uint32) *Model {
		m := d.NewModel(wire.ModelInfo{Name: name, Weights: weights}, new(wire.ModelStats), 0)
		d.Add(&m)
		return &m
	}
	a, b = add("a", 0, 2), add("b", 1, 2)
	d.Found(known, nil)
	return d, a, b
}

// fixedKey is work of a fixed key.
type fixedKey float64

func (k fixedKey) Key(load, back float64) float64 { return float64(k) }

func asksOf(m ...*Model) func() []Demand {
	return func() (demands []Demand) {
		for i, m := range m {
			demands = append(demands, Demand{Model: m.Number(), Work: fixedKey(i)})
		}
		return demands
	}
}

func TestLoadAndDisplace(t *testing.T) {
	d, a, b := newTestLoader(t)
	if a.Ready() || a.Missing() != 0.2 || a.State(0) != wire.ModelAbsent {
		t.Fatalf("at first model a is ready: %t, lacks %v s, is %v", a.Ready(), a.Missing(), a.State(0))
	}
	drop, load := d.Next(asksOf(a))
	if len(drop) != 0 || load == nil || load.Model != "a" {
		t.Fatalf("first the device is to drop %v and to load %+v", drop, load)
	}
	for load != nil {
		if failed, news := d.Answer(time.Second, &wire.Loaded{Serial: load.Serial, Count: len(load.Weights)}); failed != nil || !news {
			t.Fatalf("an answer is news: %t, and %v failed", news, failed)
		}
		_, load = d.Next(asksOf(a))
	}
	if !a.Ready() || a.ReadyAt() != time.Second || d.Used() != 200 || a.stats.Loads != 1 || !slices.Equal(d.Loaded(), []*Model{a}) {
		t.Fatalf("model a is ready: %t, since %v, %d bytes are used, it was loaded %d times", a.Ready(), a.ReadyAt(), d.Used(), a.stats.Loads)
	}
	if drop, load = d.Next(asksOf(b)); !slices.Equal(drop, []uint32{0}) || load == nil || !slices.Equal(load.Weights, []uint32{1}) {
		t.Fatalf("for model b the device is to drop %v and to load %+v, want piece 0 and 1", drop, load)
	}
	if a.Ready() || a.stats.Drops != 1 || b.State(0) != wire.ModelLoading {
		t.Fatalf("meanwhile model a is ready: %t, was dropped %d times, b is %v", a.Ready(), a.stats.Drops, b.State(0))
	}
	if err := d.CheckIntegrity(0); err != nil {
		t.Fatal(err)
	}
}

// TestFailure: a model that failed is tried again after a second, then after two.
func TestFailure(t *testing.T) {
	d, a, _ := newTestLoader(t)
	now := time.Duration(0)
	for _, wait := range []time.Duration{time.Second, 2 * time.Second} {
		_, load := d.Next(asksOf(a))
		failed, _ := d.Answer(now, &wire.Loaded{Serial: load.Serial, Err: engine.Errorf(engine.CodeInternal, "no such file")})
		if failed != a || a.Closed(now+wait-1) == nil || a.Closed(now+wait) != nil {
			t.Fatalf("after a failure at %v %v failed, and is closed until then: %v, after: %v", now, failed, a.Closed(now+wait-1), a.Closed(now+wait))
		}
		now += wait
	}
	if _, news := d.Answer(now, &wire.Loaded{Serial: 99}); news {
		t.Error("the answer to no Load is news")
	}
}

// TestRoomForPasses: what a pass holds is not displaced.
func TestRoomForPasses(t *testing.T) {
	d, a, b := newTestLoader(t)
	for !a.Ready() {
		_, load := d.Next(asksOf(a))
		d.Answer(0, &wire.Loaded{Serial: load.Serial, Count: len(load.Weights)})
	}
	if _, ok := d.Begin(a, false, asksOf(a)); !ok {
		t.Fatal("a model that is there cannot begin a pass")
	}
	if drop, load := d.Next(asksOf(b)); len(drop) > 0 || load != nil {
		t.Fatalf("during a pass the device is to drop %v of it, and to load %+v", drop, load)
	}
	d.End(a, 0)
	if drop, load := d.Next(asksOf(b)); !slices.Equal(drop, []uint32{0}) || load == nil {
		t.Fatalf("after it the device is to drop %v, and to load %+v", drop, load)
	}
}
