package architecture

import "github.com/prefillonly/prefillonly/kernels"

// StoreFLOPs are those of a row's keys and values in a layer.
func (s *Spec) StoreFLOPs() float64 { return 2 * float64(s.Hidden) * float64(2*s.Heads.KV*s.Heads.Dim) }

func (s *Spec) mlpMatrices() int {
	if s.Ungated {
		return 2
	}
	return 3
}

// rowFLOPs are those of a row in a layer, beside attention.
func (s *Spec) rowFLOPs() float64 {
	return 2 * float64(s.Hidden) * float64(s.Heads.QKVCols()+s.Heads.Q*s.Heads.Dim+s.mlpMatrices()*s.Intermediate)
}

// LayerFLOPs are those of segments of rows in a layer.
func (s *Spec) LayerFLOPs(segs []kernels.Segment, window int) float64 {
	rows, pairs := countSeenPairs(segs, window)
	return rows*s.rowFLOPs() + pairs*4*float64(s.Heads.Q*s.Heads.Dim)
}

// RestFLOPs are those of segments in the last layer when that has their keys and values.
func (s *Spec) RestFLOPs(segs []kernels.Segment) float64 {
	rows, _ := countSeenPairs(segs, 0)
	return s.LayerFLOPs(segs, s.Windows[s.Layers-1]) - rows*s.StoreFLOPs()
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
