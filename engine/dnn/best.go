package dnn

import (
	"errors"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// The outputs that Options.Best adds.
const (
	BestOutput  = "best"  // positions
	ScoreOutput = "score" // values
)

// addBest adds outputs to a graph for where, along its last axis, the first output is greatest.
func addBest(g *graph.Graph) error {
	if len(g.Outputs) == 0 || g.Outputs[0].Rank < 1 || g.Outputs[0].From == nil {
		return errors.New("has no first output of known rank along which the best could be found")
	}
	b := graph.NewBuilder(g, func(*graph.Node) error { return nil }) // specialising infers
	of := g.Outputs[0]
	last, rest := int64(of.Rank-1), of.Shape[:of.Rank-1]
	best := b.Op("ArgMax", graph.Attrs{"axis": last, "keepdims": int64(0)}, of)
	best.Set(engine.Int64, rest)
	axis := graph.FromInts(engine.Int64, []int{1}, []int64{last})
	score := b.Op("ReduceMax", graph.Attrs{"keepdims": int64(0)}, of, b.Const("axis", axis))
	score.Set(of.Type, rest)
	best.Name, score.Name = b.Fresh(BestOutput), b.Fresh(ScoreOutput)
	g.Outputs = append(g.Outputs, best, score)
	return nil
}
