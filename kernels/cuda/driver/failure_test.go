package driver

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/kernels/cuda"
)

// TestFailures: what ends a process, and what one pass.
func TestFailures(t *testing.T) {
	why := errors.New("why")
	for code, lost := range map[int]bool{
		1: false, outOfMemory: false, 98: false, 101: true, 46: true, 100: true, 214: true, 220: true, 226: true, 500: false, 600: false,
		700: true, 701: false, 702: true, 710: true, 716: true, 719: true, 721: true, 801: false, 999: true,
	} {
		err := failure("cuda:0 (X)", "pf_embed", code, why)
		var gone interface{ DeviceLost() bool }
		if got := errors.As(fmt.Errorf("layer 3: %w", err), &gone) && gone.DeviceLost(); got != lost {
			t.Errorf("CUDA error %d: lost %v, want %v", code, got, lost)
		}
		if text := err.Error(); !strings.Contains(text, "cuda:0 (X)") || !strings.Contains(text, "pf_embed") || lost != strings.Contains(text, fmt.Sprint(code)) {
			t.Errorf("CUDA error %d reads %q", code, text)
		}
	}
}

func TestWorse(t *testing.T) {
	one, two := errors.New("one"), errors.New("two")
	lost, again := failure("d", "w", 700, one), failure("d", "w", 719, two)
	for _, c := range []struct{ first, second, want error }{
		{nil, nil, nil}, {one, nil, one}, {nil, two, two}, {one, two, one},
		{one, lost, lost}, {lost, two, lost}, {lost, again, lost}, {nil, lost, lost},
	} {
		if got := cuda.Worse(c.first, c.second); got != c.want {
			t.Errorf("worse of %v and %v is %v", c.first, c.second, got)
		}
	}
}
