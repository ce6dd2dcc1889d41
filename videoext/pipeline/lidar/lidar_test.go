//go:build cgo

package lidar

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine/dnn"
	"github.com/prefillonly/prefillonly/engine/dnn/direct"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/pipeline"
	"github.com/prefillonly/prefillonly/videoext/pipeline/pipelinetest"
)

func open(t *testing.T, o Options) *LiDAR {
	t.Helper()
	file := filepath.Join(t.TempDir(), "network.onnx")
	if err := os.WriteFile(file, Network, 0o600); err != nil {
		t.Fatal(err)
	}
	backend, err := cpu.New(cpu.Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { backend.Close() })
	network, err := direct.Open(file, backend, dnn.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(network.Close)
	return New(network, o)
}

func TestSuite(t *testing.T) { pipelinetest.Run(t, open(t, Options{[]uint64{1}, 2, 2, 2})) }

// TestNetwork: it finds the cars of streets that it was not trained on, of which at least five points are there.
func TestNetwork(t *testing.T) {
	l, sum, n := open(t, Options{}), 0.0, 0
	for seed := range uint64(4) {
		s := NewStreet(500 + seed)
		for second := range 4 {
			sweep := s.Sweep(time.Duration(second) * 2 * time.Second)
			scores, boxes, err := l.inferPillars(Pillars(sweep.Points))
			if err != nil {
				t.Fatal(err)
			}
			sum, n = sum+boxesF1(seen(&sweep), sureBoxes(readCars(scores, boxes))), n+1
		}
	}
	if mean := sum / float64(n); mean < 0.7 {
		t.Errorf("F1 is %.3f", mean)
	} else {
		t.Logf("F1 %.3f", mean)
	}
}

// seen are the cars in the square that have points enough.
func seen(sweep *Sweep) (cars []Box) {
	on := make([]int, len(sweep.Cars))
	for i, of := range sweep.Of {
		if of >= 0 && blockOf(sweep.Points[i]) >= 0 {
			on[of]++
		}
	}
	for i, c := range sweep.Cars {
		if on[i] >= 5 && blockOf(Point{X: float32(c.X), Y: float32(c.Y)}) >= 0 {
			cars = append(cars, c)
		}
	}
	return cars
}

// TestGradient: the gradient of the soft count of cars is what it changes by when all pillars change a little, along the gradient's own signs.
func TestGradient(t *testing.T) {
	l := open(t, Options{[]uint64{1}, 1, 1, 1})
	in, err := l.Prepare(0, oneadapt.Config(make([]int, Blocks*Blocks)))
	if err != nil {
		t.Fatal(err)
	}
	pillars := Pillars(l.sentPoints(in.(*input), sweeps-1))
	derivatives, _, err := l.countGradient(pillars)
	if err != nil {
		t.Fatal(err)
	}
	scores, boxes, err := l.inferPillars(pillars)
	if err != nil {
		t.Fatal(err)
	}
	cars := readCars(scores, boxes)
	const step = 4e-6
	count := func(by float32) (sum float64) {
		moved := make([]float32, len(pillars))
		for i, d := range derivatives {
			moved[i] = pillars[i] + by*float32(math.Copysign(1, float64(d)))
		}
		scores, _, err := l.inferPillars(moved)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cars {
			worth, _ := counting.Evaluate(float64(scores.Data[c.place]))
			sum += worth
		}
		return sum
	}
	want := 0.0
	for _, d := range derivatives {
		want += math.Abs(float64(d))
	}
	if got := (count(step) - count(-step)) / (2 * step); len(cars) == 0 || math.Abs(got-want) > 0.1*want {
		t.Errorf("the gradient of %d cars is %v, by differences %v", len(cars), want, got)
	}
}

// TestGradients: of several sweeps a part has the root of the mean of the squares that each has alone.
func TestGradients(t *testing.T) {
	l := open(t, Options{[]uint64{1}, 1, 1, 2})
	in, err := l.Prepare(0, oneadapt.Dearest(l.Knobs()))
	if err != nil {
		t.Fatal(err)
	}
	got, err := l.Gradient(in)
	if err != nil {
		t.Fatal(err)
	}
	want, utility := make([]float64, parts*parts), 0.0
	for _, sweep := range []int{4, 9} {
		derivatives, found, err := l.countGradient(Pillars(l.sentPoints(in.(*input), sweep)))
		if err != nil {
			t.Fatal(err)
		}
		for i, d := range derivatives {
			want[partAt(cellAt(i))] += float64(d) * float64(d) / 2
		}
		utility += found / 2
	}
	if math.Abs(float64(got.Utility)-utility) > 1e-4 || utility == 0 {
		t.Errorf("the utility is %v, want %v", got.Utility, utility)
	}
	for i, v := range got.Values {
		if math.Abs(float64(v)-math.Sqrt(want[i])) > 1e-3*math.Sqrt(want[i]) {
			t.Fatalf("part %d has %v, want %v", i, v, math.Sqrt(want[i]))
		}
	}
}

// TestThin: the part of points that is sent is that of each block's setting, and those of a cheaper one are among those of a dearer one.
func TestThin(t *testing.T) {
	points := NewStreet(1).Sweep(0).Points
	r := rand.New(rand.NewPCG(1, 1))
	low, high := make(oneadapt.Config, Blocks*Blocks), make(oneadapt.Config, Blocks*Blocks)
	for i := range low {
		low[i] = r.IntN(len(kept))
		high[i] = low[i] + r.IntN(len(kept)-low[i])
	}
	dear := map[int]bool{}
	for _, n := range Thin(points, high, 5) {
		dear[n] = true
	}
	var all, sent [Blocks * Blocks]float64
	for _, p := range points {
		if b := blockOf(p); b >= 0 {
			all[b]++
		}
	}
	for _, n := range Thin(points, low, 5) {
		if !dear[n] {
			t.Fatalf("point %d is sent at %v and not at %v", n, low, high)
		}
		sent[blockOf(points[n])]++
	}
	for b, n := range all {
		k := kept[low[b]]
		if math.Abs(sent[b]-k*n) > 5*math.Sqrt(n*k*(1-k))+1e-9 {
			t.Errorf("block %d sends %v of %v points at %v", b, sent[b], n, k)
		}
	}
}

// TestRegions: blocks with cars get all points.
func TestRegions(t *testing.T) {
	var last pipeline.Result = [][]Car{{{Box: Box{X: -30, Y: -30}, Score: 1}}, {
		{Box: Box{X: 0, Y: 4, Length: 4, Width: 2}, Score: 0.9}, {Box: Box{X: 20, Y: 4, Length: 4, Width: 2}, Score: 0.4},
	}}
	c := Regions(last, 5, 1)
	for b := range c {
		want := 1
		if b == 3*Blocks+4 || b == 4*Blocks+4 {
			want = 5
		}
		if c[b] != want {
			t.Errorf("block %d has setting %d, want %d", b, c[b], want)
		}
	}
}
