// The oracle computes operations of networks slowly, in float64 on the host, and says how far off float32 may be.

package networktest

// Array is a dense tensor, row-major.
type Array struct {
	Shape []int
	V     []float64
}

// NewArray is an array of zeros.
func NewArray(shape ...int) Array { return Array{shape, make([]float64, Product(shape))} }

// Product is how many elements a shape has.
func Product(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// Places calls do with every place in a shape, row-major. The place is valid until do returns.
func Places(shape []int, do func(at []int)) {
	at := make([]int, len(shape))
	for range Product(shape) {
		do(at)
		for d := len(shape) - 1; d >= 0; d-- {
			if at[d]++; at[d] < shape[d] {
				break
			}
			at[d] = 0
		}
	}
}

func (a Array) elementIndex(at []int) int {
	i := 0
	for d, n := range a.Shape {
		i = i*n + at[d]
	}
	return i
}

func (a Array) elementAt(at []int) float64 { return a.V[a.elementIndex(at)] }

// isInside says whether a place is inside.
func (a Array) isInside(at []int) bool {
	for d, n := range a.Shape {
		if at[d] < 0 || at[d] >= n {
			return false
		}
	}
	return true
}
