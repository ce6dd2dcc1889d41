package tensorparallel

import (
	"fmt"
	"slices"

	"github.com/prefillonly/prefillonly/kernels"
)

// rankRange is the part [from, to) of n that a rank has.
func rankRange(n, rank, ranks int) (from, to int) { return n * rank / ranks, n * (rank + 1) / ranks }

// Check returns why so many ranks cannot share a model of these attention heads and this width of
// the MLP evenly, or nil.
func Check(ranks int, h kernels.Heads, intermediate int) error {
	even := func(n int) bool { return h.Q%n == 0 && h.KV%n == 0 && intermediate%n == 0 }
	if even(ranks) {
		return nil
	}
	most := h.KV
	for !even(most) {
		most--
	}
	return fmt.Errorf("%d ranks cannot divide %d attention heads, %d key-value heads and an MLP of %d columns evenly: want at most %d ranks",
		ranks, h.Q, h.KV, intermediate, most)
}

// span says that columns [at, at+n) of a whole matrix are columns [own, own+n) of a rank's.
type span struct{ at, own, n int }

// layout lists the spans of each rank. A rank's columns lie side by side from the start of a row on,
// in rows as far apart as those of the whole.
type layout [][]span

// addColumns appends columns [from, to) of the whole to a rank's.
func (l layout) addColumns(rank, from, to int) {
	if from < to {
		l[rank] = append(l[rank], span{from, l.columnCount(rank), to - from})
	}
}

// columnCount is how many columns a rank has.
func (l layout) columnCount(rank int) int {
	n := 0
	for _, s := range l[rank] {
		n += s.n
	}
	return n
}

// satisfiesLayout says whether every span of want is where it is wanted.
func (l layout) satisfiesLayout(want layout) bool {
	for rank, spans := range want {
		for _, s := range spans {
			if !slices.Contains(l[rank], s) {
				return false
			}
		}
	}
	return true
}

// stackedLayout cuts each of the widths, which lie side by side, evenly.
func stackedLayout(ranks int, widths ...int) layout {
	l, at := make(layout, ranks), 0
	for _, n := range widths {
		for rank := range ranks {
			from, to := rankRange(n, rank, ranks)
			l.addColumns(rank, at+from, at+to)
		}
		at += n
	}
	return l
}

// ofRank is a rank's part of attention heads: whole groups of queries that share keys, or, where there
// are queries alone, an even part of those.
func ofRank(h kernels.Heads, rank, ranks int) (q, kv [2]int) {
	kv[0], kv[1] = rankRange(h.KV, rank, ranks)
	if h.KV == 0 {
		q[0], q[1] = rankRange(h.Q, rank, ranks)
		return q, kv
	}
	group := h.Q / h.KV
	return [2]int{group * kv[0], group * kv[1]}, kv
}

// rankHeads are a rank's numbers of heads.
func rankHeads(h kernels.Heads, rank, ranks int) kernels.Heads {
	q, kv := ofRank(h, rank, ranks)
	return kernels.Heads{Q: q[1] - q[0], KV: kv[1] - kv[0], Dim: h.Dim}
}

// queryLayout is the layout of rows of queries, of which attention's results have the same.
func queryLayout(h kernels.Heads, ranks int) layout {
	l := make(layout, ranks)
	for rank := range ranks {
		q, _ := ofRank(h, rank, ranks)
		l.addColumns(rank, q[0]*h.Dim, q[1]*h.Dim)
	}
	return l
}

// qkvLayout is the layout of rows of queries, keys and values.
func qkvLayout(h kernels.Heads, ranks int) layout {
	l := queryLayout(h, ranks)
	for rank := range ranks {
		_, kv := ofRank(h, rank, ranks)
		l.addColumns(rank, (h.Q+kv[0])*h.Dim, (h.Q+kv[1])*h.Dim)
		l.addColumns(rank, (h.Q+h.KV+kv[0])*h.Dim, (h.Q+h.KV+kv[1])*h.Dim)
	}
	return l
}
