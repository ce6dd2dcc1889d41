package dnn

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"time"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// Batches are numbers of frames for Time: of a network whose batch is fixed it is one.
func (m *Model) Batches() []int {
	if m.network.batched {
		return []int{1, 4}
	}
	return []int{1}
}

// Time takes a pass of so many frames of noise, of the network's own shapes, and says how long it took and the longest
// of its steps; with backward it also computes the gradient of all outputs that have one to all inputs that have one.
// It computes where nested passes do, of which none is open. The weights are all resident. An error of
// engine.CodeTooLong says that the frames need too much memory.
func (m *Model) Time(frames int, backward bool) (took, step time.Duration, err error) {
	shapes := m.network.shapes(frames)
	c, err := m.plans.forward(shapes)
	if backward && err == nil {
		c, err = m.plans.backward(shapes, m.network.whole)
	}
	if err != nil {
		return 0, 0, err
	}
	if c.ArenaBytes > m.plans.limit {
		return 0, 0, m.tooLarge(c.ArenaBytes, shapes)
	}
	run, err := m.bind(c, m.work, nestedArea)
	if err != nil {
		return 0, 0, err
	}
	inputs := make([][]byte, len(c.Inputs))
	for i, in := range c.Inputs {
		inputs[i] = noise(in)
	}
	start := time.Now()
	run.Start()
	for i, in := range c.Inputs {
		if err := run.SetInput(in.Name, inputs[i]); err != nil {
			return 0, 0, err
		}
	}
	for done := false; !done; {
		before := time.Now()
		if done, err = run.Step(); err != nil {
			return 0, 0, err
		}
		step = max(step, time.Since(before))
	}
	for i, v := range c.Outputs {
		data := make([]byte, graph.Elements(run.OutputShape(i))*v.Type.Size())
		if err := run.ReadOutput(i, data); err != nil {
			return 0, 0, err
		}
	}
	return time.Since(start), step, nil
}

// noise is elements from 0 to 1 of floats, and 0 or 1 of others, which may be indices or lengths.
func noise(v *graph.Value) []byte {
	h := fnv.New64()
	h.Write([]byte(v.Name))
	random := rand.New(rand.NewPCG(h.Sum64(), 1))
	values := make([]float64, graph.Elements(v.Shape))
	for i := range values {
		if values[i] = random.Float64(); !graph.Floating(v.Type) {
			values[i] = math.Round(values[i])
		}
	}
	return graph.FromFloats(v.Type, v.Shape, values).Data
}
