package architecture

import (
	"slices"
	"testing"
)

// TestHeadOrder: what is turned together comes half a head apart, and each dimension to one place.
func TestHeadOrder(t *testing.T) {
	for _, c := range []struct {
		turned      int
		interleaved bool
		want        []int
	}{
		{8, false, nil},
		{8, true, []int{0, 2, 4, 6, 1, 3, 5, 7}},
		{4, false, []int{0, 1, 4, 6, 2, 3, 5, 7}},
		{4, true, []int{0, 2, 4, 6, 1, 3, 5, 7}},
	} {
		freq := []float32{1, 0.5, 0.25, 0.125}[:c.turned/2]
		s := Spec{Interleaved: c.interleaved, Rotations: []Rotation{Rotation{InvFreq: slices.Clone(freq), Scale: 1}.widen(8)}}
		s.Heads.Dim = 8
		if got := s.HeadOrder(); !slices.Equal(got, c.want) {
			t.Errorf("%d of 8, interleaved %t: %v, want %v", c.turned, c.interleaved, got, c.want)
		}
	}
}

// TestLongRopeGoesByTheLimit: frequencies are those of the longest sequence that is served, whatever a sequence's own length.
func TestLongRopeGoesByTheLimit(t *testing.T) {
	config := editedConfig(t, "phi3", nil)
	s, err := New(&config)
	if err != nil {
		t.Fatal(err)
	}
	r := s.Rotations[0]
	if short, long := r.Frequencies(128), r.Frequencies(129); short[1] != r.InvFreq[1] || long[1] != r.Long[1] || short[1] <= long[1] || short[12] != 0 || len(long) != 16 {
		t.Errorf("up to 128 tokens %v, up to 129 %v", short, long)
	}
}
