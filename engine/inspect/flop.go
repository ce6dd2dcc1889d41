package inspect

import "github.com/prefillonly/prefillonly/engine/dnn/graph"

// graphFLOP is how many floating-point operations a specialised graph takes: of what multiplies and adds, two for each
// weight of an output; of other operations one for each element of their outputs. 0: shapes are not known.
func graphFLOP(g *graph.Graph) int64 {
	total := int64(0)
	for _, n := range g.Nodes {
		f, ok := nodeFLOP(n)
		if !ok {
			return 0
		}
		total += f
	}
	return total
}

func nodeFLOP(n *graph.Node) (int64, bool) {
	if subs := n.Subgraphs(); len(subs) > 0 {
		most := int64(0)
		for _, sub := range subs {
			most = max(most, graphFLOP(sub))
		}
		return most, true
	}
	for _, v := range n.In {
		if v != nil && !v.Known() {
			return 0, false
		}
	}
	out := int64(0)
	for _, v := range n.Out {
		if v != nil && v.Known() {
			out += elementCount(v.Shape)
		}
	}
	switch n.Op {
	case "Conv": // weights are [out, in/groups, kernel...]
		return 2 * out * elementCount(n.In[1].Shape[1:]), true
	case "ConvTranspose": // weights are [in, out/groups, kernel...]
		return 2 * elementCount(n.In[0].Shape) * elementCount(n.In[1].Shape[1:]), true
	case "MatMul":
		return 2 * out * int64(n.In[0].Shape[n.In[0].Rank-1]), true
	case "Gemm":
		return 2 * out * int64(n.In[0].Shape[1-graph.Attr(n, "transA", int64(0))]), true
	case "GRU", "LSTM", "RNN": // weights are [directions, gates*hidden, in or hidden], for each element of a sequence
		return 2 * elementCount(n.In[0].Shape[:2]) * (elementCount(n.In[1].Shape) + elementCount(n.In[2].Shape)), true
	case "AveragePool", "LpPool", "MaxPool":
		for _, k := range graph.Attr(n, "kernel_shape", []int64{}) {
			out *= k
		}
	}
	return out, true
}

func elementCount(shape []int) int64 { return int64(graph.Elements(shape)) }
