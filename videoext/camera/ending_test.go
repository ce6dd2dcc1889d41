package camera

import (
	"testing"
	"time"
)

// TestEnding: a source that ends by itself is waited for as long as there is progress and 2 minutes more; who asks waits 10 s.
func TestEnding(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		ended, asked, progress time.Duration // 0: not
		last                   time.Duration // when it is still waited
	}{
		"by itself":                        {ended: 30 * s, last: 150 * s},
		"by itself, with progress":         {ended: 30 * s, progress: 100 * s, last: 220 * s},
		"progress before it":               {ended: 30 * s, progress: 10 * s, last: 150 * s},
		"asked for":                        {asked: 30 * s, last: 40 * s},
		"asked for, with progress":         {asked: 30 * s, progress: 39 * s, last: 40 * s},
		"by itself, and then asked for":    {ended: 30 * s, asked: 60 * s, last: 70 * s},
		"asked for, and then ended, too":   {asked: 30 * s, ended: 35 * s, last: 40 * s},
		"asked for after it was waited so": {ended: 30 * s, asked: 145 * s, last: 155 * s},
	} {
		var e ending
		for now := time.Duration(0); now <= 300*s; now += s {
			if c.progress > 0 && now == c.progress {
				e.progress = now
			}
			first := !e.begun
			if c.ended > 0 && now == c.ended && e.beginEnding(now, false) != first || c.asked > 0 && now == c.asked && e.beginEnding(now, true) != first && c.ended != c.asked {
				t.Errorf("%s: at %v it is said to be heard of first, or not", name, now)
			}
			for _, longer := range []time.Duration{0, farewell} {
				if got, want := e.begun && e.hasTimedOut(now, longer), now > c.last+longer && e.begun; now > max(c.ended, c.asked) && got != want {
					t.Fatalf("%s: at %v, for %v longer: waited %v, want %v", name, now, longer, got, want)
				}
			}
		}
	}
}
