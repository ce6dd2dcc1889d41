package residency

import (
	"fmt"
	"testing"
)

// thousand is a device with 1,000 registered models of 26 chunks, of which 8 fit; so many have work.
func thousand(busy int) (*Memory, []Demand) {
	const chunks = 26
	m := NewMemory(8*chunks, false)
	var demands []Demand
	for id := range ModelID(1000) {
		s := Spec{Rate: 1}
		for c := range chunks {
			s.Chunks = append(s.Chunks, SizedChunk{Chunk(int(id)*chunks + c), 1})
		}
		if err := m.Register(id, s); err != nil {
			panic(err)
		}
		if id < 8 {
			for _, p := range s.Chunks {
				m.Loaded(p.Chunk)
			}
		}
		if int(id) < busy {
			demands = append(demands, Demand{Model: id, Work: Requests{Service: 1, Jobs: 1 + int(id)%7}})
		}
	}
	return m, demands
}

func benchmarkNext(b *testing.B, busy int, change func(m *Memory, demands []Demand)) {
	m, demands := thousand(busy)
	b.ReportAllocs()
	for b.Loop() {
		change(m, demands)
	}
}

// BenchmarkNext decides that nothing is loaded: all that is there is better.
func BenchmarkNext(b *testing.B) {
	for _, n := range []struct {
		name string
		busy int
	}{{"9 demands", 9}, {"100 demands", 100}, {"1000 demands", 1000}} {
		b.Run(n.name, func(b *testing.B) {
			benchmarkNext(b, n.busy, func(m *Memory, demands []Demand) {
				if _, ok := m.Next(demands); ok {
					b.Fatal("something is loaded")
				}
			})
		})
	}
}

// BenchmarkLoad loads and evicts a chunk in each round.
func BenchmarkLoad(b *testing.B) {
	benchmarkNext(b, 1000, func(m *Memory, demands []Demand) {
		w := demands[999].Work.(Requests)
		w.Waited = 1e6
		demands[999].Work = w
		if a, ok := m.Next(demands); ok {
			m.Loaded(a.Load)
		} else {
			m.Unload(999)
		}
	})
}

// BenchmarkPass begins and ends a pass.
func BenchmarkPass(b *testing.B) {
	benchmarkNext(b, 1000, func(m *Memory, demands []Demand) {
		if _, ok := m.Begin(3, 0, demands); !ok {
			b.Fatal("no room")
		}
		m.End(3, 0)
	})
}

// BenchmarkFeeds decides for ten camera streams what of their models, of so many chunks each, is loaded next where half of them have
// room, and begins passes of those that are there.
func BenchmarkFeeds(b *testing.B) {
	for _, chunks := range []int{60, 128, 256} {
		b.Run(fmt.Sprintf("%d chunks", chunks), func(b *testing.B) {
			m, demands := feeds(10, chunks)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if a, ok := m.Next(demands); ok {
					m.Loaded(a.Load)
				}
				d := &demands[i%len(demands)]
				w := d.Work.(Frames)
				w.Share, w.Idle = float64(i%17)/17, float64(i%5)/50
				d.Work = w
			}
		})
	}
}

// feeds are streams, each with a model of its own, on a device with room for half of them.
func feeds(streams, chunks int) (*Memory, []Demand) {
	m := NewMemory(int64(streams*chunks/2), false)
	var demands []Demand
	for id := range ModelID(streams) {
		s := Spec{Rate: float64(chunks) / .05}
		for c := range chunks {
			s.Chunks = append(s.Chunks, SizedChunk{Chunk(int(id)*chunks + c), 1})
		}
		if err := m.Register(id, s); err != nil {
			panic(err)
		}
		demands = append(demands, Demand{Model: id, Work: Frames{Run: .01, Frames: 1, Share: .5}})
	}
	return m, demands
}
