package kernels

import "testing"

func TestGroupsSlice(t *testing.T) {
	g := &Groups{Codes: []byte{0, 1, 2, 3, 4, 5, 6, 7, 8}, Cols: 2, Scale: []float32{0, 1, 2, 3, 4, 5}, Zero: []byte{0, 1, 2, 3, 4, 5}}
	if s := g.Slice(3, 1, 3); g.Count(3) != 2 || len(s.Codes) != 6 || s.Codes[0] != 3 || len(s.Scale) != 4 || s.Scale[0] != 2 || len(s.Zero) != 4 || s.Zero[3] != 5 || s.Cols != 2 {
		t.Errorf("rows 1 and 2 of 3: %+v", s)
	}
	if got := GroupBytes(2, 300, 128); got != 2*(150+5*3) {
		t.Errorf("2 x 300 in groups of 128 take %d bytes", got)
	}
}
