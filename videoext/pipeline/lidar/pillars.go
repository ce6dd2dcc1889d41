package lidar

import (
	"math"
)

// Space around the sensor: a square that is cut into cells for the network.
const (
	Side   = 64.0 // metres
	Cells  = 128  // on a side
	Slices = 6    // of heights
)

// ends are where slices of heights end, in metres above the ground; the last takes all that is higher.
var ends = [Slices - 1]float32{0.15, 0.5, 0.9, 1.3, 1.9}

// pointCell is in which cell a point is, as a row from the rear to the front and a column from the right to the left.
func pointCell(p Point) (row, column int, inside bool) {
	row, column = int(math.Floor((float64(p.X)+Side/2)*Cells/Side)), int(math.Floor((float64(p.Y)+Side/2)*Cells/Side))
	return row, column, row >= 0 && row < Cells && column >= 0 && column < Cells
}

func sliceOf(z float32) int {
	for i, end := range ends {
		if z < end {
			return i
		}
	}
	return Slices - 1
}

// Pillars are the network's input, [Slices, Cells, Cells]: how many points are in each slice of a cell, from 0 for none to 1 for 63 and more, by the logarithm. Points are
// told apart by no more than that, so that a network of convolutions alone does the rest (a plain form of Lang and others, "PointPillars", CVPR 2019).
func Pillars(points []Point) []float32 {
	counts := make([]uint16, Slices*Cells*Cells)
	for _, p := range points {
		if row, column, ok := pointCell(p); ok {
			counts[(sliceOf(p.Z)*Cells+row)*Cells+column]++
		}
	}
	pillars := make([]float32, len(counts))
	for i, n := range counts {
		if n > 0 {
			pillars[i] = shown[min(int(n), len(shown)-1)]
		}
	}
	return pillars
}

// shown is what counts look like.
var shown = func() (shown [64]float32) {
	for n := range shown {
		shown[n] = float32(math.Log2(1+float64(n)) / 6)
	}
	return shown
}()
