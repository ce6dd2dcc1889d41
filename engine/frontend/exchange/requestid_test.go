package exchange

import (
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	for offered, kept := range map[string]bool{"": false, "abc-1": true, "a b": false, "a\n": false, "é": false, `a"b`: false, strings.Repeat("x", 129): false} {
		if got := requestID(offered); (got == offered) != kept {
			t.Errorf("%q becomes %q", offered, got)
		}
	}
	a, b := requestID(""), requestID("")
	if a == b || len(a) != 36 || a[14] != '7' {
		t.Errorf("ids %q and %q", a, b)
	}
}
