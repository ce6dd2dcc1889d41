package client

import (
	"time"

	"github.com/prefillonly/prefillonly/engine"
)

// MaxTimes bounds the jobs of a request whose times are kept.
const MaxTimes = 32

// Times are where the time of one job went.
type Times struct {
	engine.Timing
	Submitted time.Time
	Last      time.Time // when its last Result came
	Units     float64   // of its work
	Cached    int       // of these, found in the prefix cache
}

// Trace keeps the times of the first jobs of a request one by one.
type Trace struct{ Jobs []Times }

// Note keeps those of a Result.
func (t *Trace) Note(d Delivery) {
	if t == nil || d.Index >= MaxTimes {
		return
	}
	for len(t.Jobs) <= d.Index {
		t.Jobs = append(t.Jobs, Times{})
	}
	j, timing := &t.Jobs[d.Index], d.Result.Timing
	j.Last = d.At
	if j.Submitted.IsZero() {
		j.Timing, j.Submitted, j.Units = timing, d.Submitted, d.Units
	}
	j.Running, j.Executor = max(j.Running, timing.Running), timing.Executor
	if out, ok := d.Result.Output.(*engine.TokenOutput); ok && out.Index == 0 {
		j.Cached = max(j.Cached, out.Cached)
	}
}
