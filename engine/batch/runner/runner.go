// Package runner sends the lines of batch files as requests, as many at a time as there is room for, and keeps the answers; it
// is the shell of package batch.
package runner

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/prefillonly/prefillonly/engine/batch"
)

// Room bounds the lines that are under way, of all files that share it. They take turns.
type Room struct {
	lines *semaphore.Weighted
	size  int64
}

// leastWeight is what a short line takes of a Room, in bytes.
const leastWeight = 128 << 10

// NewRoom makes a Room of n short lines; long ones take the place of several.
func NewRoom(n int) *Room {
	size := int64(n) * leastWeight
	return &Room{semaphore.NewWeighted(size), size}
}

func (r *Room) weight(l *batch.Line) int64 { return min(r.size, max(leastWeight, int64(l.Size))) }

// Ask sends a line and returns what it is replied. Its error is why ctx has ended.
type Ask func(ctx context.Context, l *batch.Line) (*batch.Reply, error)

// Run is a file on its way.
type Run struct {
	Input io.Reader // a file that was checked
	Rules batch.Rules
	Done  batch.Answered // lines that are passed over
	Room  *Room
	Ask   Ask
	// Keep takes in the answer to a line, one at a time. Its first error ends the run.
	Keep func(l *batch.Line, answer []byte, ok bool) error
	// Waits is told why a line is sent again later; may be nil.
	Waits func(r *batch.Reply)
	// Expired ends the sending of lines: those without an answer get the one that Late says. Nil: never.
	Expired <-chan struct{}
	Late    func(l *batch.Line) []byte

	keep sync.Mutex
}

// Do answers all lines, and returns when the last answer is kept or the reason for which the run ends before: that ctx
// has, or what Keep or the input says. No answer is kept after it returns.
func (r *Run) Do(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var group sync.WaitGroup // of lines under way, which end with ctx
	err := r.sendLines(ctx, fail, &group)
	if err != nil {
		fail(err)
	}
	group.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func (r *Run) sendLines(ctx context.Context, fail context.CancelCauseFunc, group *sync.WaitGroup) error {
	for lines := batch.NewReader(r.Input, r.Rules); ; {
		line, err := lines.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if _, answered := r.Done[line.Key()]; answered {
			continue
		}
		weight := r.Room.weight(line)
		if r.Room.lines.Acquire(ctx, weight) != nil {
			return context.Cause(ctx)
		}
		group.Go(func() {
			defer r.Room.lines.Release(weight)
			if err := r.answerLine(ctx, line); err != nil {
				fail(err)
			}
		})
	}
}

// answerLine sends a line until it has a reply that is final, and keeps that.
func (r *Run) answerLine(ctx context.Context, line *batch.Line) error {
	asking, stop := context.WithCancel(ctx)
	defer stop()
	reply, err := r.askLine(asking, line)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	text, ok := []byte(nil), false
	switch {
	case err == errExpired:
		text = r.Late(line)
	case err != nil:
		return err
	default:
		text, ok = line.Answer(reply), reply.OK()
	}
	r.keep.Lock()
	defer r.keep.Unlock()
	if cause := context.Cause(ctx); cause != nil {
		return cause // the run has ended: nothing is kept any more
	}
	return r.Keep(line, text, ok)
}

// errExpired says that a line came too late.
var errExpired = errors.New("the line came too late")

func (r *Run) askLine(ctx context.Context, line *batch.Line) (*batch.Reply, error) {
	for tries, faults := 0, 0; ; tries++ {
		if r.isExpired() {
			return nil, errExpired
		}
		reply, err := r.Ask(ctx, line)
		if err != nil {
			return nil, err
		}
		wait, again := reply.Again(tries, faults)
		if !again {
			return reply, nil
		}
		if reply.Fault() {
			faults++
		}
		if r.Waits != nil {
			r.Waits(reply)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-r.Expired:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

func (r *Run) isExpired() bool {
	select {
	case <-r.Expired: // never of nil
		return true
	default:
		return false
	}
}
