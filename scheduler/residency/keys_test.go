package residency

import (
	"math"
	"testing"
)

// TestShareFades: what happened a half-life ago counts half, and a stream that is not served grows idle.
func TestShareFades(t *testing.T) {
	s := NewStream(10)
	if w := s.Work(12, 1, 1); w.Share != 0 || w.Idle != 2 {
		t.Errorf("a stream of two seconds is %+v", w)
	}
	s.Count(12, 4, 0)
	s.Count(12+halfLife, 0, 2)
	if w := s.Work(14, 1, 1); math.Abs(w.Share-0.5) > 1e-9 || w.Idle != 2 {
		t.Errorf("4 served a half-life before 2 died: %+v, want a share of 0.5 and 2 s idle", w)
	}
}

// TestKeysAreInSeconds: streams and requests are ordered by what a frame or a job costs, and by waiting.
func TestKeysAreInSeconds(t *testing.T) {
	for _, tt := range []struct {
		what  string
		first float64
		then  float64
	}{
		{"a stream that was served less", Frames{Run: 1, Frames: 1, Share: .5}.Key(0, 0), Frames{Run: 1, Frames: 1, Share: .6}.Key(0, 0)},
		{"what is there", Frames{Run: 1, Frames: 1, Share: 1}.Key(0, 0), Frames{Run: 1, Frames: 1, Share: 1}.Key(.1, 0)},
		{"more jobs to one load", Requests{Service: 1, Jobs: 9}.Key(9, 9), Requests{Service: 1, Jobs: 8}.Key(9, 9)},
		{"a job that has waited for its load", Requests{Service: 1, Jobs: 1, Waited: 10/Aging + 1}.Key(5, 5), Requests{Service: 1, Jobs: 1}.Key(0, 0)},
		{"a request beside a frame that costs more", Requests{Service: 1, Jobs: 1}.Key(0, 0), Frames{Run: 3, Frames: 2, Share: 1}.Key(0, 0)},
		{"a job before one that is expected", Requests{Service: 1, Jobs: 1}.Key(0, 0), Requests{Service: 1, Next: .1}.Key(0, 0)},
	} {
		if tt.first >= tt.then {
			t.Errorf("%s has the key %v, the other %v", tt.what, tt.first, tt.then)
		}
	}
}

func TestArrivals(t *testing.T) {
	var a Arrivals
	if got := a.Next(5); !math.IsInf(got, 1) {
		t.Errorf("nothing has come, and in %v the next is expected", got)
	}
	for i := range 20 {
		a.Add(float64(2 * i))
	}
	if got := a.Next(38.5); got != 2 {
		t.Errorf("jobs come every 2 s, and in %v the next is expected", got)
	}
	if got := a.Next(48); got != 10 {
		t.Errorf("none has come for 10 s, and in %v the next is expected", got)
	}
}
