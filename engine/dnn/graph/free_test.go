package graph

import (
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
)

// weighted is x -> Mul by a -> Add b -> out, where a is read twice.
func weighted() *Graph {
	g := &Graph{Name: "g"}
	b := NewBuilder(g, sameAsFirst)
	x, a := b.Input("x", engine.FP32, 2), b.Const("a", FromFloats(engine.FP32, []int{2}, []float64{1, 2}))
	y := b.Op("Mul", nil, b.Op("Mul", nil, x, a), a)
	g.Outputs = []*Value{b.Op("Add", nil, y, b.Const("b", Scalar(engine.FP32, 2)))}
	return g
}

func TestFreedConstantsAreInputs(t *testing.T) {
	g := weighted()
	before := g.String()
	free, err := g.Free("b", "a")
	if err != nil {
		t.Fatal(err)
	}
	want := `g(x FP32[2], b FP32[], a FP32[2])
Mul_out FP32[2] = Mul(x, a)
Mul_1_out FP32[2] = Mul(Mul_out, a)
Add_out FP32[2] = Add(Mul_1_out, b)
return Add_out
`
	if free.String() != want {
		t.Errorf("got\n%swant\n%s", free, want)
	}
	if g.String() != before {
		t.Errorf("the network itself has changed to\n%s", g)
	}
}

func TestConstantsThatCannotBeFreedAreNamed(t *testing.T) {
	for want, names := range map[string][]string{
		`no constant "c"`:        {"a", "c"},
		`no constant "x"`:        {"x"},
		`"a" is named twice`:     {"a", "b", "a"},
		`were computed from "b"`: {"a", "b"},
	} {
		g := weighted()
		g.Nodes[2].In[1].Folded = strings.Contains(want, "computed")
		if _, err := g.Free(names...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", names, err, want)
		}
	}
}
