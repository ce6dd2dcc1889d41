package presets

import (
	"math"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/merging/published"
)

// TestPublishedCases: the loop gives what its authors' does, to every digit that is known.
func TestPublishedCases(t *testing.T) {
	cases := published.Cases()
	if len(cases) != 36 {
		t.Errorf("%d cases, want 36", len(cases))
	}
	for _, c := range cases {
		o, possible := RunCase(c)
		if possible == c.Impossible {
			t.Errorf("%v: possible %v", c, possible)
			continue
		}
		if !possible {
			continue
		}
		if got := o.PublishedShares(); !slices.Equal(got, c.Shares) || o.Evictions != c.Evictions || math.Abs(o.Waited-c.Waited) > 5.1e-5 {
			t.Errorf("%v: shares %v, %d evictions, %.5f of the time for loads", c, got, o.Evictions, o.Waited)
		}
	}
}
