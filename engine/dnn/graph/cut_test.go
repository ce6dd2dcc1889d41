package graph

import (
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
)

// forked is x -> Relu -> Exp -> {Neg, Abs} -> Add -> out.
func forked() *Graph {
	g := &Graph{Name: "g"}
	b := NewBuilder(g, sameAsFirst)
	x := b.Input("x", engine.FP32, 2)
	e := b.Op("Exp", nil, b.Op("Relu", nil, x))
	g.Outputs = []*Value{b.Op("Add", nil, b.Op("Neg", nil, e), b.Op("Abs", nil, e))}
	b.Op("Sqrt", nil, b.Const("c", Scalar(engine.FP32, 2))) // beside
	return g
}

func names(values []*Value) string {
	var all []string
	for _, v := range values {
		all = append(all, v.Name)
	}
	return strings.Join(all, " ")
}

func TestSplitPoints(t *testing.T) {
	if got, want := names(forked().SplitPoints()), "Relu_out Exp_out"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	g := forked()
	g.Outputs = append(g.Outputs, g.Nodes[0].Out[0])
	if got, want := names(g.SplitPoints()), ""; got != want {
		t.Errorf("of a network that also gives a value on the way: got %q, want %q", got, want)
	}
}

func TestCut(t *testing.T) {
	g := forked()
	before := g.String()
	front, back, err := g.Cut("Neg_out", "Abs_out")
	if err != nil {
		t.Fatal(err)
	}
	wantFront := `g(x FP32[2])
Relu_out FP32[2] = Relu(x)
Exp_out FP32[2] = Exp(Relu_out)
Neg_out FP32[2] = Neg(Exp_out)
Abs_out FP32[2] = Abs(Exp_out)
return Neg_out, Abs_out
`
	wantBack := `g(Neg_out FP32[2], Abs_out FP32[2])
Add_out FP32[2] = Add(Neg_out, Abs_out)
return Add_out
`
	if front.String() != wantFront || back.String() != wantBack {
		t.Errorf("got\n%s%swant\n%s%s", front, back, wantFront, wantBack)
	}
	if g.String() != before {
		t.Errorf("the network itself has changed to\n%s", g)
	}
}

func TestCutErrors(t *testing.T) {
	g := forked()
	b := NewBuilder(g, sameAsFirst)
	g.Outputs = []*Value{b.Op("Mul", nil, g.Outputs[0], g.Inputs[0])}
	for want, at := range map[string][]string{
		`depends on input "x"`:       {"Exp_out"},
		`no node computes "nothing"`: {"nothing"},
		`no node computes "x"`:       {"x"},
		"cut at no value":            nil,
	} {
		if _, _, err := g.Cut(at...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", at, err, want)
		}
	}
}
