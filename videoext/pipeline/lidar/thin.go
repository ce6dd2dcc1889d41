package lidar

import (
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
)

// Blocks on a side, each of which has a knob.
const Blocks = 8

// kept are the settings of a knob: how many of a block's points are sent, as a part of them.
var kept = []float64{0.05, 0.1, 0.2, 0.4, 0.7, 1}

// Knobs are those of all blocks, row by row from the rear.
func Knobs() []oneadapt.Knob {
	places := make([]float64, len(kept))
	for i, k := range kept {
		places[i] = (k - kept[0]) / (1 - kept[0])
	}
	knobs := make([]oneadapt.Knob, Blocks*Blocks)
	for i := range knobs {
		knobs[i] = oneadapt.Knob{Name: "points", Places: places}
	}
	return knobs
}

// blockAt is the block of a cell.
func blockAt(row, column int) int { return row*Blocks/Cells*Blocks + column*Blocks/Cells }

// blockOf is the block that a point is in; -1: none, and then it is not sent.
func blockOf(p Point) int {
	row, column, ok := pointCell(p)
	if !ok {
		return -1
	}
	return blockAt(row, column)
}

// Thin are the numbers of the points that are sent of a sweep at a configuration. Each point is drawn once by the seed, so that those of a cheaper setting are among those of a
// dearer one.
func Thin(points []Point, c oneadapt.Config, seed uint64) (sent []int) {
	for i, p := range points {
		if b := blockOf(p); b >= 0 && hashUniform(seed, uint64(i)) < kept[c[b]] {
			sent = append(sent, i)
		}
	}
	return sent
}

// hashUniform is from 0 to below 1, by seed and number (splitmix64: Steele and others, OOPSLA 2014).
func hashUniform(seed, n uint64) float64 {
	z := mixBits(mixBits(seed) + n)
	return float64(z>>11) / (1 << 53)
}

func mixBits(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// selectPoints are the points of some numbers.
func selectPoints(points []Point, numbers []int) []Point {
	some := make([]Point, len(numbers))
	for i, n := range numbers {
		some[i] = points[n]
	}
	return some
}
