package lidar

import (
	"math"

	"github.com/prefillonly/prefillonly/engine/dnn/direct"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/pipeline"
)

// parts are how many parts of a gradient there are on a side: finer than blocks, since most of a block is of no concern to the network.
const parts = 32

// partAt is the part of a cell, and blockWith the block of a part.
func partAt(row, column int) int  { return row*parts/Cells*parts + column*parts/Cells }
func blockWith(part int) int      { return blockAt(part/parts*Cells/parts, part%parts*Cells/parts) }
func cellAt(i int) (row, col int) { return i / Cells % Cells, i % Cells }

// Gradient implements pipeline.Pipeline: the root of the sum of the squares of the derivatives in each part, by the last sweep of the interval; of more, which are as far apart as can
// be, the root of the mean of these sums, and the mean utility.
func (l *LiDAR) Gradient(in pipeline.Input) (*oneadapt.Map, error) {
	m := oneadapt.NewMap(parts, parts)
	for n := range l.gradients {
		derivatives, utility, err := l.countGradient(Pillars(l.sentPoints(in.(*input), (n+1)*sweeps/l.gradients-1)))
		if err != nil {
			return nil, err
		}
		m.Utility += float32(utility) / float32(l.gradients)
		for i, d := range derivatives {
			m.Values[partAt(cellAt(i))] += d * d / float32(l.gradients)
		}
	}
	for i, v := range m.Values {
		m.Values[i] = float32(math.Sqrt(float64(v)))
	}
	return m, nil
}

// counting counts cars more gently than the published code does, by whose slope of 20 next to no gradient is left of cars that the network is sure of, nor of those it hardly sees.
var counting = oneadapt.Utility{Threshold: 0.5, Slope: 6}

// countGradient is how the soft count of cars changes with pillars, and that count.
func (l *LiDAR) countGradient(pillars []float32) (derivatives []float32, utility float64, err error) {
	scores, boxes, err := l.inferPillars(pillars)
	if err != nil {
		return nil, 0, err
	}
	seeds := make([]float32, len(scores.Data))
	for _, c := range readCars(scores, boxes) {
		worth, slope := counting.Evaluate(c.Score)
		utility += worth
		seeds[c.place] = float32(slope)
	}
	derivatives, err = l.network.Gradient(shape, littleEndian(pillars), []direct.Output{{Name: scores.Name, Shape: scores.Shape, Data: seeds}})
	return derivatives, utility, err
}

// Changes implements pipeline.Pipeline: in a block, products of the gradient with what differs cancel, so that it has the root of the sum of their squares; blocks have different
// cars, and none cancels another. What differs is the mean over all sweeps.
func (l *LiDAR) Changes(m *oneadapt.Map, against, in pipeline.Input) ([]float64, error) {
	changes, squares := make([]float64, len(l.knobs)), make([]float64, parts*parts)
	for i := range sweeps {
		before, after := Pillars(l.sentPoints(against.(*input), i)), Pillars(l.sentPoints(in.(*input), i))
		for i, v := range before {
			if d := float64(after[i] - v); d != 0 {
				squares[partAt(cellAt(i))] += d * d
			}
		}
	}
	const each = sweeps * Slices * Cells * Cells / (parts * parts)
	for part, s := range squares {
		v := float64(m.Values[part])
		changes[blockWith(part)] += v * v * s / each
	}
	for i, s := range changes {
		changes[i] = math.Sqrt(s)
	}
	return changes, nil
}
