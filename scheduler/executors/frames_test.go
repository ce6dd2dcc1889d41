package executors

import (
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/cost"
	"github.com/prefillonly/prefillonly/scheduler/queue"
)

// TestNext: a pass costs 10 ms and each frame 4 ms more.
func TestNext(t *testing.T) {
	ms := time.Millisecond
	m := cost.New(wire.Cost{Base: 10 * ms, Unit: 4 * ms})
	for _, tt := range []struct {
		name      string
		most      int
		deadlines []time.Duration
		want      int
	}{
		{"alone", 8, []time.Duration{90 * ms}, 1},
		{"two share", 8, []time.Duration{90 * ms, 90 * ms}, 2},
		{"three save no base cost", 8, []time.Duration{90 * ms, 90 * ms, 90 * ms}, 3},
		{"no more than fit", 2, []time.Duration{90 * ms, 90 * ms, 90 * ms}, 2},
		{"the first would be late by company", 8, []time.Duration{15 * ms, 90 * ms}, 1},
		{"the first is late anyway", 8, []time.Duration{12 * ms, 90 * ms}, 2},
	} {
		q := newFrameQueue(&m, tt.most)
		for i := range tt.deadlines {
			at := len(tt.deadlines) - 1 - i // the last deadline comes first
			q.PushFrame(&Job{Job: queue.Job{Order: uint64(at), Frames: 1, Deadline: tt.deadlines[at]}}, 0)
		}
		next := q.NextBatch(0)
		if len(next) != tt.want || next[0].Order != 0 || !framesInOrder(q.AllFrames()) {
			t.Errorf("%s: %d frames share a pass, the first is %d; want %d, 0", tt.name, len(next), next[0].Order, tt.want)
		}
	}
}

// TestLatest: what is pushed is there until it is removed, and must start so long before its deadline.
func TestLatest(t *testing.T) {
	m := cost.New(wire.Cost{Base: 10 * time.Millisecond, Unit: 4 * time.Millisecond})
	q := newFrameQueue(&m, 8)
	j := &Job{Job: queue.Job{Frames: 1, Deadline: time.Second}}
	q.PushFrame(j, 0)
	if got := q.LatestStart(j); got != 986*time.Millisecond || q.SecondsWaiting() != 0.014 {
		t.Errorf("it must start at %v, and takes %v s; want 986ms and 0.014", got, q.SecondsWaiting())
	}
	if _, asks := q.DemandWork(0); !asks {
		t.Error("nothing is asked of the device while a frame waits")
	}
	q.RemoveFrame(j)
	if _, asks := q.DemandWork(0); asks || len(q.AllFrames()) != 0 || q.SecondsWaiting() != 0 {
		t.Error("a frame waits that was removed")
	}
}
