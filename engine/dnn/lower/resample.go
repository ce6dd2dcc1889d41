package lower

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/kernels"
)

// resampleLowerings are those of nodes that make elements of neighbours along a dimension.
func resampleLowerings() map[string]func(t *translator, n *graph.Node) *Value {
	return map[string]func(t *translator, n *graph.Node) *Value{}
}

// interpolate makes dimension d of x as long as size: element i is the sum of weights times elements at places.
func (t *translator) interpolate(x *Value, d, size int, taps func(i int) (places []int, weights []float64)) *Value {
	kind := &Interpolate{Dim: d, Taps: kernels.Taps{Start: []int32{0}}}
	for i := range size {
		places, weights := taps(i)
		for j, place := range places {
			kind.Taps.Index = append(kind.Taps.Index, int32(place))
			kind.Taps.Weight = append(kind.Taps.Weight, float32(weights[j]))
		}
		kind.Taps.Start = append(kind.Taps.Start, int32(len(kind.Taps.Index)))
	}
	shape := slices.Clone(x.Shape)
	shape[d] = size
	return t.add(kind, x.Type, shape, x)
}
