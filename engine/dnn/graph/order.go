package graph

import (
	"container/heap"
	"fmt"
)

// Sort puts the nodes, those of subgraphs too, into an order in which each comes after those it reads. It is the
// order they are in as far as that allows. A cycle is an error that names one of its nodes.
func (g *Graph) Sort() error {
	for _, n := range g.Nodes {
		for _, sub := range n.Subgraphs() {
			if err := sub.Sort(); err != nil {
				return err
			}
		}
	}
	waits, users := g.dependencies()
	var ready places
	for i, w := range waits {
		if w == 0 {
			ready = append(ready, i) // ascending, so a heap
		}
	}
	sorted := make([]*Node, 0, len(g.Nodes))
	for len(ready) > 0 {
		i := heap.Pop(&ready).(int)
		sorted = append(sorted, g.Nodes[i])
		for _, u := range users[i] {
			if waits[u]--; waits[u] == 0 {
				heap.Push(&ready, u)
			}
		}
	}
	if len(sorted) < len(g.Nodes) {
		return fmt.Errorf("%v is on a cycle: it reads what is computed from its outputs", g.onCycle(waits))
	}
	g.Nodes = sorted
	return nil
}

// dependencies are, for each node, how many values it reads of other nodes, and the nodes that read its own.
func (g *Graph) dependencies() (waits []int, users [][]int) {
	waits, users = make([]int, len(g.Nodes)), make([][]int, len(g.Nodes))
	place := map[*Value]int{}
	for i, n := range g.Nodes {
		for _, v := range n.Out {
			if v != nil {
				place[v] = i
			}
		}
	}
	for i, n := range g.Nodes {
		for _, v := range n.Reads() {
			if from, ok := place[v]; ok {
				waits[i]++
				users[from] = append(users[from], i)
			}
		}
	}
	return waits, users
}

// onCycle is a node of a cycle, given for each node how many values it waits for in vain.
func (g *Graph) onCycle(waits []int) *Node {
	from := map[*Value]*Node{}
	stuck := map[*Node]bool{} // and not gone back from
	var at *Node
	for i, n := range g.Nodes {
		if waits[i] > 0 {
			at, stuck[n] = n, true
		}
		for _, v := range n.Out {
			from[v] = n
		}
	}
	// Every stuck node waits for a stuck one: going back from it ends where it has been, on a cycle.
	for stuck[at] {
		stuck[at] = false
		for _, v := range at.Reads() {
			if _, waits := stuck[from[v]]; waits {
				at = from[v]
				break
			}
		}
	}
	return at
}

// places is a heap of numbers, the least first.
type places []int

func (p places) Len() int           { return len(p) }
func (p places) Less(i, j int) bool { return p[i] < p[j] }
func (p places) Swap(i, j int)      { p[i], p[j] = p[j], p[i] }
func (p *places) Push(x any)        { *p = append(*p, x.(int)) }
func (p *places) Pop() any {
	last := len(*p) - 1
	x := (*p)[last]
	*p = (*p)[:last]
	return x
}

// Prune removes the nodes of a sorted graph that no output depends on, and sets outputs that nobody reads to nil.
func (g *Graph) Prune() {
	wanted := map[*Value]bool{}
	for _, v := range g.Outputs {
		wanted[v] = true
	}
	kept := len(g.Nodes)
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		n := g.Nodes[i]
		for _, sub := range n.Subgraphs() {
			sub.Prune()
		}
		used := false
		for j, v := range n.Out {
			if v != nil && !wanted[v] {
				n.Out[j] = nil
			}
			used = used || n.Out[j] != nil
		}
		if !used {
			continue
		}
		for _, v := range n.Reads() {
			wanted[v] = true
		}
		kept--
		g.Nodes[kept] = n
	}
	g.Nodes = append([]*Node(nil), g.Nodes[kept:]...)
}
