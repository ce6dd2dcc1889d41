package lidar

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prefillonly/prefillonly/engine/dnn/direct"
)

// TestOverlap: boxes' overlap is what points by chance say.
func TestOverlap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	within := func(b Box, x, y float64) bool {
		sin, cos := math.Sincos(b.Yaw)
		return math.Abs((x-b.X)*cos+(y-b.Y)*sin) <= b.Length/2 && math.Abs((y-b.Y)*cos-(x-b.X)*sin) <= b.Width/2
	}
	for range 40 {
		a, b := Box{Length: 4, Width: 2, Yaw: 7 * r.Float64()}, Box{X: 3 * r.Float64(), Y: 2 * r.Float64(), Length: 3, Width: 1 + r.Float64(), Yaw: 7 * r.Float64()}
		both, either := 0.0, 0.0
		for range 20000 {
			x, y := 12*r.Float64()-6, 12*r.Float64()-6
			inA, inB := within(a, x, y), within(b, x, y)
			if inA && inB {
				both++
			}
			if inA || inB {
				either++
			}
		}
		if got, want := boxOverlap(a, b), both/either; math.Abs(got-want) > 0.04 {
			t.Errorf("%v and %v overlap by %.3f, want %.3f", a, b, got, want)
		}
	}
}

// TestRead: peaks become cars where they are, the best first, and of two that overlap the better one is left.
func TestRead(t *testing.T) {
	const places = 64
	scores := &direct.Output{Shape: []int{1, 1, places, places}, Data: make([]float32, places*places)}
	boxes := &direct.Output{Shape: []int{1, 6, places, places}, Data: make([]float32, 6*places*places)}
	put := func(row, column int, score float32, values ...float32) {
		scores.Data[row*places+column] = score
		for k, v := range values {
			boxes.Data[k*places*places+row*places+column] = v
		}
	}
	length, width := float32(math.Log(4)), float32(math.Log(2))
	put(40, 32, 0.7, 0.5, 0.25, length, width, 0, 1)
	put(41, 32, 0.6, 0.5, 0.25, length, width, 0, 1) // beside a higher one
	put(42, 32, 0.4, 0.5, 0.25, length, width, 0, 1) // on the same car
	put(20, 10, 0.9, 0, 0, length, width, 0, -1)
	put(5, 5, 0.05)
	cars := readCars(scores, boxes)
	if len(cars) != 2 {
		t.Fatalf("%d cars: %v", len(cars), cars)
	}
	if want := (Box{X: -12, Y: -22, Length: 4, Width: 2, Yaw: math.Pi / 2}); !near(cars[0].Box, want) || cars[0].Score < 0.89 {
		t.Errorf("the first car is %v, want %v", cars[0], want)
	}
	if want := (Box{X: 8.5, Y: 0.25, Length: 4, Width: 2}); !near(cars[1].Box, want) {
		t.Errorf("the second car is %v, want %v", cars[1], want)
	}
}

func near(a, b Box) bool { return boxOverlap(a, b) > 0.999 }

// TestF1: each true box is right by one that was found, and each that was found is of one.
func TestF1(t *testing.T) {
	at := func(x float64) Box { return Box{X: x, Length: 4, Width: 2} }
	tests := []struct {
		truth, found []Box
		want         float64
	}{
		{nil, nil, 1},
		{nil, []Box{at(0)}, 0},
		{[]Box{at(0), at(10)}, []Box{at(0.5), at(10), at(20)}, 0.8},
		{[]Box{at(0)}, []Box{at(0.2), at(-0.2)}, 2.0 / 3},
		{[]Box{at(0)}, []Box{at(3)}, 0},
	}
	for _, test := range tests {
		if got := boxesF1(test.truth, test.found); math.Abs(got-test.want) > 1e-9 {
			t.Errorf("F1 of %v and %v is %v, want %v", test.truth, test.found, got, test.want)
		}
	}
}
