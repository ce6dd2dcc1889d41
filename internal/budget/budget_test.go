package budget

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestHolderLeavesRoom: one alone has most, whoever comes later finds room, and what was given back is there again.
func TestHolderLeavesRoom(t *testing.T) {
	b := New(64)
	for _, c := range []struct {
		holder   string
		n        int64
		most     int64 // that the refusal names; 0: it is held
		leastAll int64
	}{
		{"a", 48, 0, 48}, {"a", 1, 48, 48}, {"b", 12, 0, 60}, {"b", 1, 12, 60}, {"c", 3, 0, 63}, {"", 1, 0, 64}, {"d", 1, 0, 64},
	} {
		full := b.Hold(c.holder, c.n)
		if c.holder == "d" {
			if full == nil {
				t.Error("more than the limit is held")
			}
			continue
		}
		if (full != nil) != (c.most != 0) || full != nil && full.Most != c.most || b.Held() != c.leastAll {
			t.Errorf("%s asks for %d: %v, %d are held", c.holder, c.n, full, b.Held())
		}
	}
	b.Release("a", 48)
	if full := b.Hold("b", 24); full != nil {
		t.Errorf("what a gave back is not there: %v", full)
	}
	if full := b.Hold("b", 10); full == nil || full.Never || full.Own != 36 || full.Others != 4 || !strings.Contains(full.Error(), "hold 36 of the 45 that they may beside 4 of others, and 10 more") {
		t.Errorf("what cannot be held now: %+v", full)
	}
	if full := b.Hold("b", 49); full == nil || !full.Never || !strings.Contains(full.Error(), "49 are asked for, and one key may have 48") {
		t.Errorf("what can never be held: %+v", full)
	}
	if full := b.Hold("b", 0); full != nil {
		t.Errorf("nothing is refused: %v", full)
	}
	b.Release("b", 36)
	b.Release("c", 3)
	b.Release("", 1)
	if b.Held() != 0 || len(b.each) != 0 {
		t.Errorf("%d are left, of %v", b.Held(), b.each)
	}
}

// TestHoldAgainstOracle: whatever is held and given back, in any order, nobody has more than three quarters of what the others leave
// when it gets more, and everybody gets what is within that.
func TestHoldAgainstOracle(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		limit := random.Int64N(1000)
		b, has := New(limit), map[string]int64{}
		for range 200 {
			who := string(rune('a' + random.IntN(4)))
			if own := has[who]; own > 0 && random.IntN(3) == 0 {
				back := 1 + random.Int64N(own)
				b.Release(who, back)
				has[who] -= back
				continue
			}
			others := int64(0)
			for other, n := range has {
				if other != who {
					others += n
				}
			}
			n := 1 + random.Int64N(limit/4+1)
			want := has[who]+n <= limit-others-(limit-others)/4
			if full := b.Hold(who, n); (full == nil) != want {
				t.Fatalf("of %d, where %v hold: %s asks for %d: %v", limit, has, who, n, full)
			}
			if want {
				has[who] += n
			}
		}
	}
}
