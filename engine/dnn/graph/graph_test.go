package graph

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
)

// sameAsFirst is inference for tests: every output is like input 0.
func sameAsFirst(n *Node) error {
	if n.Op == "Bad" {
		return fmt.Errorf("%v is bad", n)
	}
	for _, v := range n.Out {
		v.Set(n.In[0].Type, n.In[0].Shape)
	}
	return nil
}

// branching is x -> Relu -> If(cond){ Add(relu, c) } -> out, beside a node that nobody reads.
func branching() (g *Graph, relu, out *Value) {
	g = &Graph{Name: "g"}
	b := NewBuilder(g, sameAsFirst)
	x, cond := b.Input("x", engine.FP32, 1, -1), b.Input("cond", engine.Bool)
	relu = b.Op("Relu", nil, x)
	sub := &Graph{Name: "then"}
	inner := NewBuilder(sub, sameAsFirst)
	sub.Outputs = []*Value{inner.Op("Add", nil, relu, inner.Const("c", Scalar(engine.FP32, 2)))}
	inner.Op("Neg", nil, relu)
	outs := b.Node("If", []*Value{cond, nil}, Attrs{"then_branch": sub}, 2)
	b.Op("Exp", nil, relu)
	g.Outputs = outs[:1]
	return g, relu, outs[0]
}

func TestText(t *testing.T) {
	g, _, _ := branching()
	g.Prune()
	want := `g(x FP32[1,?], cond BOOL[])
Relu_out FP32[1,?] = Relu(x)
If_0_out BOOL[], - = If(cond) then_branch=then
    then()
    Add_out FP32[1,?] = Add(Relu_out, FP32[][2])
    return Add_out
return If_0_out
`
	if got := g.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestUsersSeeSubgraphs(t *testing.T) {
	g, relu, _ := branching()
	var ops []string
	for _, n := range g.Users()[relu] {
		ops = append(ops, n.Op)
	}
	if got := strings.Join(ops, " "); got != "If Exp" {
		t.Errorf("readers of the captured value: %s", got)
	}
}

func TestSortOfShuffledNodes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		g := &Graph{}
		b := NewBuilder(g, sameAsFirst)
		values := []*Value{b.Input("x", engine.FP32, 2)}
		for range 40 {
			values = append(values, b.Op("Add", nil, values[rng.IntN(len(values))], values[rng.IntN(len(values))]))
		}
		in := g.String()
		if err := g.Sort(); err != nil || g.String() != in {
			t.Fatalf("sorting a sorted graph: %v\n%s", err, g)
		}
		rng.Shuffle(len(g.Nodes), func(i, j int) { g.Nodes[i], g.Nodes[j] = g.Nodes[j], g.Nodes[i] })
		if err := g.Sort(); err != nil {
			t.Fatal(err)
		}
		for i, n := range g.Nodes {
			for _, v := range n.In {
				if v.From != nil && slices.Index(g.Nodes, v.From) > i {
					t.Fatalf("%v reads %v, which comes later", n, v)
				}
			}
		}
	}
}

func TestSortNamesANodeOfTheCycle(t *testing.T) {
	g := &Graph{}
	b := NewBuilder(g, sameAsFirst)
	x := b.Input("x", engine.FP32, 2)
	first := b.Op("Add", nil, x, x)
	second := b.Op("Mul", nil, first, x)
	b.Op("Exp", nil, second)
	g.Nodes[0].In[1] = second
	err := g.Sort()
	if err == nil || !(strings.Contains(err.Error(), `"Add"`) || strings.Contains(err.Error(), `"Mul"`)) {
		t.Errorf("got %v", err)
	}
	if len(g.Nodes) != 3 {
		t.Error("nodes are lost")
	}
}

func TestCloneIsApart(t *testing.T) {
	g, relu, out := branching()
	before := g.String()
	c, of := g.Clone()
	if c.String() != before {
		t.Fatalf("the copy is\n%s", c)
	}
	if of[out] != c.Outputs[0] || of[out].From != c.Nodes[1] {
		t.Error("values do not lead to their copies")
	}
	sub := Attr[*Graph](c.Nodes[1], "then_branch", nil)
	if sub.Nodes[0].In[0] != of[relu] {
		t.Error("a subgraph of the copy reads the original")
	}
	of[relu].Name, sub.Name, c.Nodes[1].Attrs["more"] = "changed", "changed", int64(1)
	if g.String() != before {
		t.Error("a change of the copy changed the original")
	}
}

func TestBuilderStopsInferringAtAnError(t *testing.T) {
	g := &Graph{}
	b := NewBuilder(g, sameAsFirst)
	x := b.Input("x", engine.FP32, 2)
	y := b.Op("Bad", nil, x)
	z := b.Op("Relu", nil, y)
	if err := b.Err(); err == nil || err.Error() != `Bad node "Bad" is bad` {
		t.Errorf("got %v", err)
	}
	if z.Type != 0 || z.Rank != -1 || z.Known() {
		t.Errorf("known: %v", z)
	}
	if a, c := b.Op("Relu", nil, x), NewBuilder(g, sameAsFirst).Fresh("x"); a.Name == z.Name || c == "x" {
		t.Errorf("names taken twice: %s %s", a.Name, c)
	}
}

// What takes an output's place has its name; what keeps its own, an input or another output, is copied to it.
func TestSetOutputs(t *testing.T) {
	g := &Graph{Name: "g"}
	b := NewBuilder(g, sameAsFirst)
	x := b.Input("x", engine.FP32, 2)
	r := b.Op("Relu", nil, x)
	for _, name := range []string{"a", "b", "c"} {
		g.Outputs = append(g.Outputs, NewValue(name))
	}
	g.Outputs = append(g.Outputs, b.Op("Exp", nil, x))
	b.SetOutputs([]*Value{r, r, x, g.Outputs[3]})
	want := `g(x FP32[2])
a FP32[2] = Relu(x)
Exp_out FP32[2] = Exp(x)
b FP32[2] = Identity(a)
c FP32[2] = Identity(x)
return a, b, c, Exp_out
`
	if got := g.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
