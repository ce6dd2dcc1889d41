package residency

import (
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// device plays what Memory decides, and knows what is there by itself.
type device struct {
	t       *testing.T
	rng     *rand.Rand
	m       *Memory
	cap     int64
	bytes   map[Chunk]int64
	specs   map[ModelID]Spec
	demands []Demand
	there   map[Chunk]bool // resident or on its way
	flying  []Chunk        // on their way
	passes  []pass
}

type pass struct {
	model ModelID
	area  int64
}

// models is how many there are at most.
const models = 7

// newDevice makes a device and models at random, of chunks that they share.
func newDevice(t *testing.T, rng *rand.Rand) *device {
	d := &device{t: t, rng: rng, cap: 50 + rng.Int64N(50), bytes: map[Chunk]int64{}, specs: map[ModelID]Spec{}, there: map[Chunk]bool{}}
	d.m = NewMemory(d.cap, rng.IntN(2) == 0)
	for id := range ModelID(2 + rng.IntN(models-1)) {
		s := Spec{Rate: 1 + rng.Float64(), Area: rng.Int64N(10), Keep: rng.IntN(6) == 0}
		for range 1 + rng.IntN(6) {
			c := Chunk(rng.IntN(20))
			if d.bytes[c] == 0 {
				d.bytes[c] = 1 + rng.Int64N(15)
			}
			s.Chunks = append(s.Chunks, SizedChunk{c, d.bytes[c]})
		}
		var large *TooLarge
		switch err := d.m.Register(id, s); {
		case err == nil:
			d.specs[id] = s
		case !errors.As(err, &large):
			t.Fatal(err)
		}
	}
	return d
}

// whole says whether all of a model is there, on its way or not.
func (d *device) whole(id ModelID) bool {
	return !slices.ContainsFunc(d.specs[id].Chunks, func(p SizedChunk) bool { return !d.there[p.Chunk] })
}

// ready says whether nothing of it is on its way.
func (d *device) ready(id ModelID) bool {
	return d.whole(id) && !slices.ContainsFunc(d.specs[id].Chunks, func(p SizedChunk) bool { return slices.Contains(d.flying, p.Chunk) })
}

// held are the chunks that are not to go, by passes and models that are kept, and by demands that are.
func (d *device) held(demands bool) map[Chunk]bool {
	held := map[Chunk]bool{}
	hold := func(id ModelID) {
		for _, p := range d.specs[id].Chunks {
			held[p.Chunk] = true
		}
	}
	for _, p := range d.passes {
		hold(p.model)
	}
	for id, s := range d.specs {
		if s.Keep {
			hold(id)
		}
	}
	for _, l := range d.demands {
		if demands && l.Kept && d.whole(l.Model) {
			hold(l.Model)
		}
	}
	return held
}

// drop evicts chunks that are there, not on their way and not held.
func (d *device) drop(evict []Chunk, held map[Chunk]bool) {
	d.t.Helper()
	for _, c := range evict {
		if !d.there[c] || slices.Contains(d.flying, c) || held[c] {
			d.t.Fatalf("chunk %d is evicted; there %v, on their way %v, held %v", c, d.there[c], d.flying, held[c])
		}
		delete(d.there, c)
	}
}

// worse checks that what is evicted is used by no whole model with a key as small as that of the one that is loaded.
func (d *device) worse(a Action) {
	bar := math.MaxFloat64
	for _, l := range d.demands {
		if l.Model == a.Model {
			if bar = l.Work.Key(0, 0); l.Kept {
				return
			}
		}
	}
	for _, l := range d.demands {
		uses := slices.ContainsFunc(d.specs[l.Model].Chunks, func(p SizedChunk) bool { return slices.Contains(a.Evict, p.Chunk) })
		if uses && d.whole(l.Model) && l.Work.Key(0, 0) <= bar {
			d.t.Fatalf("%v displaces model %d, whose key %v is not greater than %v", a, l.Model, l.Work.Key(0, 0), bar)
		}
	}
}

// check holds Memory to what is there.
func (d *device) check() {
	d.t.Helper()
	used := int64(0)
	for c := range d.there {
		used += d.bytes[c]
	}
	for _, p := range d.passes {
		used += p.area
	}
	if used != d.m.Used() || used > d.cap {
		d.t.Fatalf("%d bytes are used, Memory says %d, there are %d", used, d.m.Used(), d.cap)
	}
	for id := range d.specs {
		if d.ready(id) != d.m.Ready(id) {
			d.t.Fatalf("model %d is ready: %v, Memory says %v", id, d.ready(id), d.m.Ready(id))
		}
	}
}

func (d *device) next() {
	a, ok := d.m.Next(d.demands)
	if !ok {
		return
	}
	if d.there[a.Load] {
		d.t.Fatalf("chunk %d is loaded, and is there", a.Load)
	}
	d.worse(a)
	d.drop(a.Evict, d.held(true))
	d.there[a.Load] = true
	d.flying = append(d.flying, a.Load)
}

func (d *device) land() {
	if len(d.flying) == 0 {
		return
	}
	c := d.flying[0]
	d.flying = d.flying[1:]
	if d.rng.IntN(10) == 0 {
		d.m.Failed(c)
		delete(d.there, c)
	} else if !d.m.Loaded(c) {
		delete(d.there, c)
	}
}

func (d *device) begin(id ModelID) {
	if !d.ready(id) {
		return
	}
	held := d.held(true)
	for _, p := range d.specs[id].Chunks {
		held[p.Chunk] = true
	}
	area := d.specs[id].Area + d.rng.Int64N(5)
	if evict, ok := d.m.Begin(id, area, d.demands); ok {
		d.drop(evict, held)
		d.passes = append(d.passes, pass{id, area})
	}
}

func (d *device) end() {
	if len(d.passes) > 0 {
		i := d.rng.IntN(len(d.passes))
		d.m.End(d.passes[i].model, d.passes[i].area)
		d.passes = slices.Delete(d.passes, i, i+1)
	}
}

// again removes a model that has no pass, and registers it anew.
func (d *device) again(id ModelID) {
	if slices.ContainsFunc(d.passes, func(p pass) bool { return p.model == id }) {
		return
	}
	d.drop(d.m.Remove(id), nil)
	if err := d.m.Register(id, d.specs[id]); err != nil {
		d.t.Fatal(err)
	}
}

func (d *device) reset() {
	d.m.Reset()
	d.there, d.flying, d.passes = map[Chunk]bool{}, nil, nil
}

// key is a key whatever is to be loaded.
type key float64

func (k key) Key(float64, float64) float64 { return float64(k) }

// change gives demands other keys.
func (d *device) change() {
	d.demands = d.demands[:0]
	for _, id := range slices.Sorted(maps.Keys(d.specs)) {
		if d.rng.IntN(3) > 0 {
			d.demands = append(d.demands, Demand{Model: id, Work: key(d.rng.Float64()), Kept: d.rng.IntN(10) == 0})
		}
	}
}

// step does something at random.
func (d *device) step() {
	d.change()
	id := ModelID(d.rng.IntN(models))
	_, known := d.specs[id]
	switch n := d.rng.IntN(100); {
	case n < 25:
		d.next()
	case n < 45:
		d.land()
	case n < 65 && known:
		d.begin(id)
	case n < 85:
		d.end()
	case n < 90 && known:
		d.drop(d.m.Unload(id), d.held(false))
	case n < 95 && known:
		d.again(id)
	case n == 99:
		d.reset()
	}
	d.check()
}

// TestRandom plays random models, demands and passes on a device, and holds what is decided to what a dumb one knows: never more
// than there is, never what a pass uses or is kept, never what is better; and a model is ready when all its chunks are there.
func TestRandom(t *testing.T) {
	for seed := range uint64(300) {
		d := newDevice(t, rand.New(rand.NewPCG(seed, 7)))
		for range 300 {
			d.step()
		}
	}
}

// FuzzMemory is TestRandom with the choices of a fuzzer.
func FuzzMemory(f *testing.F) {
	f.Add([]byte("residency"))
	f.Fuzz(func(t *testing.T, data []byte) {
		d := newDevice(t, rand.New(&choices{data, rand.NewPCG(1, 2)}))
		for range 100 {
			d.step()
		}
	})
}

// choices are random numbers from bytes, and others when they are at an end.
type choices struct {
	data []byte
	rest rand.Source
}

func (c *choices) Uint64() uint64 {
	if len(c.data) < 2 {
		return c.rest.Uint64()
	}
	n := uint64(c.data[0])<<56 | uint64(c.data[1])<<48 | uint64(c.data[0])<<24 | uint64(c.data[1])
	c.data = c.data[2:]
	return n
}
