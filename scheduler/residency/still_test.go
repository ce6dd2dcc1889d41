package residency

import (
	"math/rand/v2"
	"testing"
)

// shop is a device on which jobs and frames wait, and time.
type shop struct {
	m       *Memory
	ownTime bool
	demands []*shopDemand
	now     float64
	left    int // that wait
	flying  []Chunk
	running *shopDemand
	ends    float64
}

type shopDemand struct {
	model  ModelID
	area   int64
	stream bool
	jobs   int     // that wait
	since  float64 // when they came, or one was served
}

func newShop(rng *rand.Rand) *shop {
	s := &shop{ownTime: rng.IntN(2) == 0}
	s.m = NewMemory(20+rng.Int64N(40), s.ownTime)
	bytes := map[Chunk]int64{}
	for id := range ModelID(1 + rng.IntN(6)) {
		spec := Spec{Rate: 5, Area: rng.Int64N(10)}
		for range 1 + rng.IntN(5) {
			c := Chunk(rng.IntN(25))
			if bytes[c] == 0 {
				bytes[c] = 1 + rng.Int64N(12)
			}
			spec.Chunks = append(spec.Chunks, SizedChunk{c, bytes[c]})
		}
		if s.m.Register(id, spec) != nil {
			continue // too large
		}
		l := &shopDemand{model: id, area: spec.Area, stream: rng.IntN(3) == 0, jobs: 1 + rng.IntN(8)}
		s.demands = append(s.demands, l)
		s.left += l.jobs
	}
	return s
}

func (s *shop) work(l *shopDemand) Work {
	waited := s.now - l.since
	if l.stream {
		return Frames{Run: 1, Frames: 3, Share: 1 / (1 + waited), Idle: waited}
	}
	return Requests{Service: 1, Waited: waited, Jobs: l.jobs}
}

func (s *shop) waiting() (list []Demand) {
	for _, l := range s.demands {
		if l.jobs > 0 {
			list = append(list, Demand{Model: l.model, Work: s.work(l)})
		}
	}
	return list
}

// step asks for a load, then for a pass, and lets what goes on end now and then. It says whether anything goes on.
func (s *shop) step(rng *rand.Rand) bool {
	if len(s.flying) > 0 && rng.IntN(2) == 0 {
		s.m.Loaded(s.flying[0])
		s.flying = s.flying[1:]
	}
	if s.running != nil && s.now > s.ends {
		s.m.End(s.running.model, s.running.area)
		s.running = nil
	}
	demands := s.waiting()
	if len(s.flying) == 0 && !(s.ownTime && s.running != nil) {
		if a, ok := s.m.Next(demands); ok {
			s.flying = append(s.flying, a.Load)
		}
	}
	if s.running == nil && !(s.ownTime && len(s.flying) > 0) {
		s.run(demands)
	}
	s.now += 0.3
	return s.running != nil || len(s.flying) > 0
}

// run begins the pass of least key.
func (s *shop) run(demands []Demand) {
	var best *shopDemand
	for _, l := range s.demands {
		if l.jobs > 0 && s.m.Ready(l.model) && (best == nil || s.work(l).Key(0, 0) < s.work(best).Key(0, 0)) {
			best = l
		}
	}
	if best == nil {
		return
	}
	if _, ok := s.m.Begin(best.model, best.area, demands); ok {
		s.running, s.ends = best, s.now+0.5
		best.jobs--
		best.since = s.now
		s.left--
	}
}

// TestNothingStandsStill serves what waits on random devices, requests beside streams in one order: as long as anything waits,
// something runs or is loaded, or will be when waiting has made a key small enough.
func TestNothingStandsStill(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 11))
		s := newShop(rng)
		for still := 0; s.left > 0; still++ {
			if s.step(rng) {
				still = 0
			}
			if still > 5000 || s.now > 1e5 { // 1,500 s: no key here takes longer to fall
				t.Fatalf("seed %d: %d wait at %.0f s, and nothing has happened for %d steps: %+v", seed, s.left, s.now, still, s.waiting())
			}
		}
	}
}
