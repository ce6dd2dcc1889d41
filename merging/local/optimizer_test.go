package local

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestAdamEqualsItsAlgorithm holds steps to algorithm 1 of Adam's paper, written out in float64.
func TestAdamEqualsItsAlgorithm(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	values, kept := []float32{0.5, -2, 0}, moments{}
	want, m, v := []float64{0.5, -2, 0}, make([]float64, 3), make([]float64, 3)
	for step := 1; step <= 200; step++ {
		gradient, rate := make([]float32, 3), 0.01/float64(step)
		for i := range gradient {
			gradient[i] = float32(random.NormFloat64() * math.Pow(10, float64(i)))
			g := float64(gradient[i])
			m[i] = 0.9*m[i] + 0.1*g
			v[i] = 0.999*v[i] + 0.001*g*g
			want[i] -= rate * (m[i] / (1 - math.Pow(0.9, float64(step)))) / (math.Sqrt(v[i]/(1-math.Pow(0.999, float64(step)))) + 1e-8)
		}
		rule{}.moveValues(values, gradient, &kept, rate)
		for i := range want {
			if math.Abs(float64(values[i])-want[i]) > 1e-6*math.Max(1, math.Abs(want[i])) {
				t.Fatalf("step %d: element %d is %v, want %v", step, i, values[i], want[i])
			}
		}
	}
}

// TestFirstStepOfAdamHasTheRatesSize whatever the gradient's is.
func TestFirstStepOfAdamHasTheRatesSize(t *testing.T) {
	values := []float32{1, 1, 1}
	rule{}.moveValues(values, []float32{1e-3, -5, 1e4}, &moments{}, 0.25)
	for i, want := range []float32{0.75, 1.25, 0.75} {
		if math.Abs(float64(values[i]-want)) > 1e-5 {
			t.Errorf("element %d is %v, want %v", i, values[i], want)
		}
	}
}

func TestDescentIsAgainstTheGradient(t *testing.T) {
	values := []float32{1, 2}
	rule{plain: true}.moveValues(values, []float32{0.5, -4}, &moments{}, 0.5)
	if values[0] != 0.75 || values[1] != 4 {
		t.Errorf("got %v, want [0.75 4]", values)
	}
}

// TestMeanOfStepsIsSteady: values that swing about a place have a mean near it, and one step is its own mean.
func TestMeanOfStepsIsSteady(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	average := []float32{9}
	for step := 1; step <= 500; step++ {
		follow(average, []float32{2 + float32(random.NormFloat64())}, step)
	}
	if math.Abs(float64(average[0])-2) > 0.5 {
		t.Errorf("the mean is %v, want 2", average[0])
	}
	still := []float32{3}
	follow(still, []float32{3}, 1)
	if still[0] != 3 {
		t.Errorf("the mean of what does not move is %v, want 3", still[0])
	}
}
