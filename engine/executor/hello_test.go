package executor_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// TestLongestSteps: the longest step of late is told when it has changed, and a long one is forgotten when
// others have followed for some minutes.
func TestLongestSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{transcript: &transcript{begun: time.Now()}, to: make(chan wire.Message, 100)}
		s.runner = &timed{Null: executor.NewNull(pool()), log: &transcript{}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			cfg := executor.Config{Name: "cpu-0", Heartbeat: time.Hour, Log: zap.NewNop()}
			ended <- executor.Run(ctx, cfg, s, func() (executor.Runner, error) { return s.runner, nil })
		}()
		s.at(0, &wire.Welcome{Epoch: 1}, &wire.Welcome{Epoch: 1})
		synctest.Wait()
		s.steps = nil
		for minute, step := range []time.Duration{5, 40, 5, 41, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5} {
			s.at(minute * 60_000)
			s.runner.step = step * time.Millisecond
			s.to <- of(wire.PassID(minute), "c", 1)
		}
		s.at(14 * 60_000)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		want := []time.Duration{5 * time.Millisecond, 40 * time.Millisecond, 5 * time.Millisecond}
		if !slices.Equal(s.steps, want) {
			t.Errorf("told %v, want %v", s.steps, want)
		}
	})
}

// TestHeartbeatsSayLittle: what the executor can run is told until the scheduler has settled, and then where
// it has changed: here by the first measured step.
func TestHeartbeatsSayLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &transcript{begun: time.Now(), all: true}
		s := &stage{transcript: log, to: make(chan wire.Message, 100)}
		s.runner = &timed{Null: executor.NewNull(pool()), log: &transcript{}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			cfg := executor.Config{Name: "cpu-0", Heartbeat: 100 * time.Millisecond, Log: zap.NewNop()}
			ended <- executor.Run(ctx, cfg, s, func() (executor.Runner, error) { return s.runner, nil })
		}()
		s.at(150, &wire.Welcome{Epoch: 1})
		s.at(250, &wire.Welcome{Epoch: 1})
		s.at(450, of(1, "c", 3))
		s.at(550)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		want := []string{
			"0 -> hello, 3 models, resident []", "100 -> hello, 3 models, resident []", "150 -> hello, 3 models, resident []",
			"200 -> hello, 3 models, resident []", "250 -> hello", "300 -> hello", "400 -> hello",
			"474 -> done 1 in 24ms", "474 -> hello, 3 models, resident []", "474 -> hello", "500 -> hello",
		}
		if !slices.Equal(s.lines, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(s.lines, "\n"), strings.Join(want, "\n"))
		}
	})
}
