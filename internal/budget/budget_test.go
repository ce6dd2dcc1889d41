package budget

import "testing"

// TestBudget: what passes the limit is refused and not counted, unless it has come already.
func TestBudget(t *testing.T) {
	b := New(10)
	if others, ok := b.Hold(8); !ok || others != 0 {
		t.Errorf("8 of 10: %d, %v", others, ok)
	}
	if others, ok := b.Hold(3); ok || others != 8 {
		t.Errorf("3 more: %d, %v", others, ok)
	}
	if b.Add(5) != 5 {
		t.Error("what came is not counted")
	}
	if _, ok := b.Hold(0); !ok {
		t.Error("nothing is refused")
	}
	b.Release(5)
	if others, ok := b.Hold(2); !ok || others != 8 || b.Limit() != 10 {
		t.Errorf("2 more: %d, %v", others, ok)
	}
}
