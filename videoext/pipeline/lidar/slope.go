package lidar

import (
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

// Slope implements pipeline.Pipeline, by the last sweep of the interval: the sizes of the derivatives, summed by part.
func (l *LiDAR) Slope(in pipeline.Input) (*oneadapt.Map, error) {
	derivatives, utility, err := l.differentiate(Pillars(l.sent(in.(*input), sweeps-1)))
	if err != nil {
		return nil, err
	}
	m := oneadapt.NewMap(parts, parts)
	m.Utility = float32(utility)
	for i, d := range derivatives {
		m.Values[partAt(cellAt(i))] += max(d, -d)
	}
	return m, nil
}

// differentiate is how the soft count of cars changes with pillars, and that count.
func (l *LiDAR) differentiate(pillars []float32) (derivatives []float32, utility float64, err error) {
	scores, boxes, err := l.look(pillars)
	if err != nil {
		return nil, 0, err
	}
	seeds := make([]float32, len(scores.Data))
	for _, c := range read(scores, boxes) {
		worth, slope := l.utility.Of(c.Score)
		utility += worth
		seeds[c.place] = float32(slope)
	}
	derivatives, err = l.network.Gradient(shape, littleEndian(pillars), []direct.Output{{Name: scores.Name, Shape: scores.Shape, Data: seeds}})
	return derivatives, utility, err
}

// Changes implements pipeline.Pipeline: for each block the sum over its parts of the gradient times the mean size of the difference of pillars, of all sweeps.
func (l *LiDAR) Changes(m *oneadapt.Map, against, in pipeline.Input) ([]float64, error) {
	changes, differences := make([]float64, len(l.knobs)), make([]float64, parts*parts)
	for i := range sweeps {
		before, after := Pillars(l.sent(against.(*input), i)), Pillars(l.sent(in.(*input), i))
		for i, v := range before {
			if d := after[i] - v; d != 0 {
				differences[partAt(cellAt(i))] += float64(max(d, -d))
			}
		}
	}
	const each = sweeps * Slices * Cells * Cells / (parts * parts)
	for part, d := range differences {
		changes[blockWith(part)] += float64(m.Values[part]) * d / each
	}
	return changes, nil
}
