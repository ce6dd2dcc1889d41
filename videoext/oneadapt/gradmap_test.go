package oneadapt

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func randomMap(r *rand.Rand, width, height int) *Map {
	m := NewMap(width, height)
	m.Utility = float32(r.IntN(20))
	for i := range m.Values {
		if r.IntN(4) == 0 {
			m.Values[i] = float32(math.Exp(3 * r.NormFloat64()))
		}
	}
	return m
}

// TestMap: what goes over the wire comes back, each value within a quarter of an octave of it or, if it is small, as nothing.
func TestMap(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, size := range [][2]int{{1, 1}, {60, 34}, {80, 45}, {7, 3}, {64, 1}} {
		m := randomMap(r, size[0], size[1])
		data, err := m.AppendBinary([]byte("head"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := ReadMap(data[4:])
		if err != nil {
			t.Fatal(err)
		}
		if got.Width != m.Width || got.Height != m.Height || got.Utility != m.Utility || len(got.Values) != len(m.Values) {
			t.Fatalf("%d x %d parts came back as %d x %d", m.Width, m.Height, got.Width, got.Height)
		}
		most := float32(0)
		for _, v := range m.Values {
			most = max(most, v)
		}
		for i, v := range m.Values {
			off := math.Abs(math.Log2(float64(got.Values[i] / v)))
			if small := v <= most/100; !small && off > 0.2501 || small && got.Values[i] > most/80 {
				t.Errorf("part %d is %v, was %v; the greatest is %v", i, got.Values[i], v, most)
			}
		}
	}
}

func TestMapWrong(t *testing.T) {
	for _, v := range []float32{float32(math.NaN()), float32(math.Inf(1)), -1} {
		m := NewMap(2, 2)
		m.Values[3] = v
		if _, err := m.AppendBinary(nil); err == nil {
			t.Errorf("a part of %v is written", v)
		}
	}
	if _, err := (&Map{Width: 2, Height: 2, Values: make([]float32, 3)}).AppendBinary(nil); err == nil {
		t.Error("4 parts of which there are 3 are written")
	}
}

func FuzzReadMap(f *testing.F) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, size := range [][2]int{{1, 1}, {60, 34}, {3, 2}} {
		data, err := randomMap(r, size[0], size[1]).AppendBinary(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ReadMap(data)
		if err != nil {
			return
		}
		if len(m.Values) != m.Width*m.Height {
			t.Fatalf("%d x %d parts are %d", m.Width, m.Height, len(m.Values))
		}
		if _, err := m.AppendBinary(nil); err != nil {
			t.Fatal(err)
		}
	})
}

// TestSpread: squares go around, and are as many within the map.
func TestSpread(t *testing.T) {
	m := NewMap(5, 5)
	m.Values[2*5+2] = 6
	for i, v := range m.Spread(1).Values {
		want := float32(0)
		if x, y := i%5, i/5; x >= 1 && x <= 3 && y >= 1 && y <= 3 {
			want = 2
		}
		if v != want {
			t.Errorf("part %d has %v, not %v", i, v, want)
		}
	}
	m = NewMap(2, 2)
	m.Values[0] = 6
	if got := m.Spread(3).Values; !slices.Equal(got, []float32{3, 3, 3, 3}) {
		t.Errorf("a map of four has %v", got)
	}
}
