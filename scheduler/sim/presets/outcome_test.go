package presets

import (
	"math"
	"testing"
)

// TestSkippedFramesHaveTheLastAnswer: a frame that is served has its own answer, one that is not the last, and before the first none.
func TestSkippedFramesHaveTheLastAnswer(t *testing.T) {
	var o FrameShares
	o.add([]bool{false, true, false, false}, 10)
	o.add([]bool{true, true, true, true}, 10)
	want := (1 + agreement(.1) + agreement(.2)) / 4
	if o.Shares[0] != .25 || math.Abs(o.Accuracy[0]-want) > 1e-12 || o.Shares[1] != 1 || o.Accuracy[1] != 1 {
		t.Errorf("got %+v, want shares of 0.25 and 1, accuracies of %v and 1", o, want)
	}
}

// TestAgreementFades: what was found longer ago is never worth more.
func TestAgreementFades(t *testing.T) {
	for n := range 1000 {
		at := float64(n) / 100
		if now, next := agreement(at), agreement(at+.01); next > now || next < 0 || n == 0 && now != 1 {
			t.Errorf("after %v s %v, 10 ms later %v", at, now, next)
		}
	}
}
