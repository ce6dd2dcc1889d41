package dnn

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine/dnn/onnx/onnxtest"
	"github.com/prefillonly/prefillonly/engine/weights/store"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// rows are tensors of four numbers.

func rows(names ...string) (list []onnxtest.Value) {
	for _, n := range names {
		list = append(list, onnxtest.Value{Name: n, Type: onnxtest.Float32, Dims: []any{1, 4}})
	}
	return list
}

// shapesOfGraphs are graphs of about n nodes.
var shapesOfGraphs = map[string]func(n int) onnxtest.Graph{
	"a chain": func(n int) onnxtest.Graph {
		g := onnxtest.Graph{Inputs: rows("v0"), Outputs: rows("v" + strconv.Itoa(n))}
		for i := range n {
			g.Nodes = append(g.Nodes, onnxtest.Node{Op: "Relu", In: []string{fmt.Sprint("v", i)}, Out: []string{fmt.Sprint("v", i+1)}})
		}
		return g
	},
	"a chain of host nodes": func(n int) onnxtest.Graph {
		g := onnxtest.Graph{Inputs: rows("v0"), Outputs: rows("v" + strconv.Itoa(n))}
		for i := range n {
			g.Nodes = append(g.Nodes, onnxtest.Node{Op: "Atan", In: []string{fmt.Sprint("v", i)}, Out: []string{fmt.Sprint("v", i+1)}})
		}
		return g
	},
	"a fan-out joined by one Concat": func(n int) onnxtest.Graph {
		g := onnxtest.Graph{Inputs: rows("x"), Outputs: rows("y")}
		g.Outputs[0].Dims = []any{1, 4 * n}
		join := onnxtest.Node{Op: "Concat", Out: []string{"y"}, Attrs: map[string]any{"axis": 1}}
		for i := range n {
			g.Nodes = append(g.Nodes, onnxtest.Node{Op: "Relu", In: []string{"x"}, Out: []string{fmt.Sprint("v", i)}})
			join.In = append(join.In, fmt.Sprint("v", i))
		}
		g.Nodes = append(g.Nodes, join)
		return g
	},
	"a fan-out joined by one Sum": func(n int) onnxtest.Graph {
		g := onnxtest.Graph{Inputs: rows("x"), Outputs: rows("y")}
		join := onnxtest.Node{Op: "Sum", Out: []string{"y"}}
		for i := range n {
			g.Nodes = append(g.Nodes, onnxtest.Node{Op: "Relu", In: []string{"x"}, Out: []string{fmt.Sprint("v", i)}})
			join.In = append(join.In, fmt.Sprint("v", i))
		}
		g.Nodes = append(g.Nodes, join)
		return g
	},
	"a Concat of parts": func(n int) onnxtest.Graph {
		g := onnxtest.Graph{Inputs: rows("x"), Outputs: rows("y")}
		g.Inputs[0].Dims, g.Outputs[0].Dims = []any{1, 3 * n}, []any{1, n}
		join := onnxtest.Node{Op: "Concat", Out: []string{"y"}, Attrs: map[string]any{"axis": 1}}
		for i := range n {
			at, v := i*i%(3*n), fmt.Sprint("v", i)
			g.Constants = append(g.Constants, onnxtest.Ints(v+"from", at), onnxtest.Ints(v+"to", at+1))
			g.Nodes = append(g.Nodes, onnxtest.Node{Op: "Slice", In: []string{"x", v + "from", v + "to", "axis"}, Out: []string{v}})
			join.In = append(join.In, v)
		}
		g.Constants = append(g.Constants, onnxtest.Ints("axis", 1))
		g.Nodes = append(g.Nodes, join)
		return g
	},
	"diamonds": func(n int) onnxtest.Graph {
		g := onnxtest.Graph{Inputs: rows("v0"), Outputs: rows("v" + strconv.Itoa(n/3))}
		for i := range n / 3 {
			v := fmt.Sprint("v", i)
			g.Nodes = append(g.Nodes, onnxtest.Node{Op: "Exp", In: []string{v}, Out: []string{v + "a"}},
				onnxtest.Node{Op: "Neg", In: []string{v}, Out: []string{v + "b"}},
				onnxtest.Node{Op: "Add", In: []string{v + "a", v + "b"}, Out: []string{fmt.Sprint("v", i+1)}})
		}
		return g
	},
	"initializers": func(n int) onnxtest.Graph {
		g := onnxtest.Graph{Inputs: rows("v0"), Outputs: rows("v" + strconv.Itoa(n))}
		for i := range n {
			c := fmt.Sprint("c", i)
			g.Constants = append(g.Constants, onnxtest.Floats(c, []int{4}, 1, 2, 3, float64(i)))
			g.Nodes = append(g.Nodes, onnxtest.Node{Op: "Add", In: []string{fmt.Sprint("v", i), c}, Out: []string{fmt.Sprint("v", i+1)}})
		}
		return g
	},
	"convolutions": func(n int) onnxtest.Graph {
		g := onnxtest.Graph{Inputs: rows("v0"), Outputs: rows("v" + strconv.Itoa(n))}
		g.Inputs[0].Dims, g.Outputs[0].Dims = []any{1, 1, 4, 4}, []any{1, 1, 4, 4}
		g.Constants = append(g.Constants, onnxtest.Floats("w", []int{1, 1, 1, 1}, 1))
		for i := range n {
			g.Nodes = append(g.Nodes, onnxtest.Node{Op: "Conv", In: []string{fmt.Sprint("v", i), "w"}, Out: []string{fmt.Sprint("c", i)}},
				onnxtest.Node{Op: "Tanh", In: []string{fmt.Sprint("c", i)}, Out: []string{fmt.Sprint("v", i+1)}})
		}
		return g
	},
	"nested branches": func(n int) onnxtest.Graph {
		const depth = 12
		g := onnxtest.Graph{Inputs: append(rows("x"), onnxtest.Value{Name: "c", Type: onnxtest.Bool}), Outputs: rows("y")}
		inner := onnxtest.Graph{Name: "g", Outputs: rows("r" + strconv.Itoa(depth))}
		inner.Nodes = append(inner.Nodes, onnxtest.Node{Op: "Relu", In: []string{"x"}, Out: []string{"r" + strconv.Itoa(depth)}})
		for d := depth - 1; d >= 0; d-- {
			r := fmt.Sprint("r", d)
			outer := onnxtest.Graph{Name: "g", Outputs: rows(r)}
			for i := range n / depth {
				outer.Nodes = append(outer.Nodes, onnxtest.Node{Op: "Relu", In: []string{"x"}, Out: []string{fmt.Sprint(r, "_", i)}})
			}
			outer.Nodes = append(outer.Nodes, onnxtest.Node{Op: "If", In: []string{"c"}, Out: []string{r}, Attrs: map[string]any{"then_branch": inner, "else_branch": onnxtest.Graph{
				Name: "e", Nodes: []onnxtest.Node{{Op: "Relu", In: []string{"x"}, Out: []string{r + "e"}}}, Outputs: rows(r + "e")}}})
			inner = outer
		}
		g.Nodes = append(inner.Nodes, onnxtest.Node{Op: "Relu", In: []string{"r0"}, Out: []string{"y"}})
		return g
	},
}

// spent is how long the process has computed.
func spent(t *testing.T) time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		t.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// loading is what it takes to load a network, its gradient planned too.
func loading(t *testing.T, g onnxtest.Graph) time.Duration {
	file := writeFile(t, g)
	before := spent(t)
	n := read(t, file, Options{})
	st := store.New(ref.New())
	n.Plan(st.Backend())
	m, err := Open(n, st, blobs{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	w, err := NewWorkspace(st.Backend(), m.WorkBytes())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Free()
	if err := m.Use(w); err != nil {
		t.Fatal(err)
	}
	for i := range m.Chunks() {
		if err := m.LoadChunk(i); err != nil {
			t.Fatal(err)
		}
	}
	c, err := m.plans.getPlan(m.plans.newRecipe(n.inputShapes(1), nil))
	if err != nil {
		t.Fatal(err)
	}
	defer m.plans.release(c)
	if _, err := m.bind(c, w, ownArea); err != nil {
		t.Fatal(err)
	}
	return spent(t) - before
}

// TestLoadingIsLinear: eight times as many nodes take about eight times as long to load, where the square would be 64 times. A
// chain has more of them, since passes over it that take their square are quick at few. Of three tries one is to show it, as other work
// may come in the way of one part of a try.
func TestLoadingIsLinear(t *testing.T) {
	const times = 8
	for name, of := range shapesOfGraphs {
		few := 1200
		if name == "a chain" {
			few = 6000
		}
		t.Run(name, func(t *testing.T) {
			loading(t, of(few)) // for what is made once
			for range 3 {
				one, many := loading(t, of(few)), loading(t, of(times*few))
				t.Logf("%d nodes: %v, %d nodes: %v, %.1f times", few, one, times*few, many, float64(many)/float64(one))
				if many <= 2*times*max(one, 100*time.Millisecond) {
					return
				}
			}
			t.Errorf("%d nodes take more than %d times as long as %d in each of three tries", times*few, 2*times, few)
		})
	}
}

// TestManyTensors: a network of more inputs or outputs than are served is refused with how many there are.
func TestManyTensors(t *testing.T) {
	g := onnxtest.Graph{Inputs: rows("x")}
	for i := range maxTensors + 1 {
		y := fmt.Sprint("y", i)
		g.Nodes = append(g.Nodes, onnxtest.Node{Op: "Relu", In: []string{"x"}, Out: []string{y}})
		g.Outputs = append(g.Outputs, rows(y)...)
	}
	if _, err := Read(writeFile(t, g), Options{}); err == nil || !strings.Contains(err.Error(), "has 1 inputs and 1025 outputs; at most 1024 of each are served") {
		t.Errorf("got %v", err)
	}
	g.Nodes, g.Outputs = g.Nodes[1:], g.Outputs[1:]
	loading(t, g)
}
