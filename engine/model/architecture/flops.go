package architecture

import "github.com/prefillonly/prefillonly/kernels"

// StoreFLOPs are those of a row's keys and values in a layer.
func (s *Spec) StoreFLOPs() float64 { return 2 * float64(s.Hidden) * float64(2*s.Heads.KV*s.Heads.Dim) }

// mlpFLOPs are those of a row in the MLP of layer i, or in the experts it goes through.
func (s *Spec) mlpFLOPs(i int) float64 {
	matrices, width := 3, s.Intermediate
	if x := &s.Mixture; s.HasExperts(i) {
		width = x.Chosen*x.inner + x.sharedInner
	} else if s.Ungated {
		matrices = 2
	}
	return 2 * float64(s.Hidden) * float64(matrices*width)
}

// rowFLOPs are those of a row in layer i, beside attention.
func (s *Spec) rowFLOPs(i int) float64 {
	return 2*float64(s.Hidden)*float64(s.Heads.QKVCols()+s.Heads.Q*s.Heads.Dim) + s.mlpFLOPs(i)
}

// readRows is how many rows' products take as long as to read a matrix from memory, about: a tile of the kernels.
const readRows = 16

// ReadFLOPs are what can be computed while the experts are read that so many rows of layer i go through. Those are most of what few rows take; of other
// matrices the same ones are read for any rows.
func (s *Spec) ReadFLOPs(i, rows int) float64 {
	if !s.HasExperts(i) {
		return 0
	}
	return readRows * 2 * float64(s.Hidden) * float64(3*s.Mixture.inner) * s.Mixture.ReadExperts(float64(rows))
}

// LeastRows is the fewest rows that steps are to take for a matrix to be multiplied with least of them: an expert sees a part of all.
func (s *Spec) LeastRows(least int) int {
	if x := &s.Mixture; x.Experts > 0 {
		return least * x.Experts / x.Chosen
	}
	return least
}

// LayerFLOPs are those of segments of rows in layer i.
func (s *Spec) LayerFLOPs(segs []kernels.Segment, i int) float64 {
	rows, pairs := countSeenPairs(segs, s.Windows[i])
	return rows*s.rowFLOPs(i) + pairs*4*float64(s.Heads.Q*s.Heads.Dim)
}

// RestFLOPs are those of segments in the last layer when that has their keys and values.
func (s *Spec) RestFLOPs(segs []kernels.Segment) float64 {
	rows, _ := countSeenPairs(segs, 0)
	return s.LayerFLOPs(segs, s.Layers-1) - rows*s.StoreFLOPs()
}

// countSeenPairs counts the rows of segments, and the pairs of a row and a position that it sees.
func countSeenPairs(segs []kernels.Segment, window int) (rows, pairs float64) {
	for _, s := range segs {
		n := float64(s.Rows)
		whole := n
		if window > 0 {
			whole = min(n, max(0, float64(window-s.Pos))) // that see all before them, and themselves
		}
		rows += n
		pairs += whole*float64(s.Pos) + whole*(whole+1)/2 + (n-whole)*float64(window)
	}
	return rows, pairs
}
