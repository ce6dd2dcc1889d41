package engine

import "testing"

// TestCacheSalt: prompts of two adapters, of an adapter and of none, or of two salts have nothing in common.
func TestCacheSalt(t *testing.T) {
	seen := map[string]bool{}
	for _, adapter := range []string{"", "a", "b", "ab"} {
		for _, salt := range []string{"", "a", "b", "ab"} {
			job := Job{Salt: salt, Work: &Tokens{Ask: Ask{Adapter: adapter}}}
			whole := job.CacheSalt()
			if seen[whole] || adapter == "" && whole != salt {
				t.Errorf("adapter %q, salt %q: %q", adapter, salt, whole)
			}
			seen[whole] = true
			if a, s := CutCacheSalt(whole); a != adapter || s != salt {
				t.Errorf("%q is of %q and %q", whole, a, s)
			}
		}
	}
}
