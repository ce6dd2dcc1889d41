package wire

import (
	"math"
	"testing"
)

// TestUnits: a frame of the size that the cost is of is one unit; others cost by the line through two sizes.
func TestUnits(t *testing.T) {
	for _, c := range []struct {
		limits           TensorLimits
		frames, elements float64
		gradient         bool
		want             float64
	}{
		{TensorLimits{}, 3, 600, false, 3},
		{TensorLimits{Elements: 200, Backward: 1.5}, 3, 600, true, 7.5},
		{TensorLimits{Elements: 200, Growth: 0.75}, 1, 200, false, 1},
		{TensorLimits{Elements: 200, Growth: 0.75}, 1, 800, false, 3.25},
		{TensorLimits{Elements: 200, Growth: 0.75}, 2, 1600, false, 6.5},
		{TensorLimits{Elements: 200, Growth: 0.75, Backward: 1}, 1, 100, true, 1.25},
		{TensorLimits{Elements: 200, Growth: 3}, 1, 400, false, 4},
		{TensorLimits{Elements: 200, Growth: 3}, 1, 100, false, 0.5},
	} {
		if got := c.limits.Units(c.frames, c.elements, c.gradient); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%+v: %v frames of %v elements, gradient %v: %v units, want %v", c.limits, c.frames, c.elements, c.gradient, got, c.want)
		}
	}
}
