package executor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// timed is a Runner of pool's models whose parts take time, in a bubble where that is exact: a piece of
// weights 10 ms, a step 4 ms. A layer is two steps, and a pass as many layers as its first job's number says.
type timed struct {
	*executor.Null
	log       *transcript
	failed    map[uint32]error              // what loading a piece comes to
	preparing map[wire.PassID]time.Duration // of passes that are to be prepared, for how long; 0 panics
	alone     map[wire.PassID]bool          // passes that find no room beside others
	opened    int                           // passes that are not closed
	reason    string                        // why the first model cannot be run
	step      time.Duration                 // 0: stepTime
}

func (r *timed) Info() wire.ExecutorInfo {
	info := r.Null.Info()
	info.Models[0].Reason = r.reason
	return info
}

type timedPass struct {
	executor.Pass
	r     *timed
	id    wire.PassID
	steps int
	taken int
}

const (
	pieceTime = 10 * time.Millisecond
	stepTime  = 4 * time.Millisecond
)

func (r *timed) Load(model string, weight uint32) (done bool, err error) {
	r.log.add("load %d for %s", weight, model)
	time.Sleep(pieceTime)
	switch err := r.failed[weight]; {
	case err == errPanic:
		panic("in a load")
	case err != nil:
		r.reason = err.Error()
		return false, err
	}
	return r.Null.Load(model, weight)
}

func (r *timed) Drop(weights []uint32) {
	r.log.add("drop %d", weights)
	r.Null.Drop(weights)
}

var errPanic = errors.New("to panic")

func (r *timed) Begin(run *wire.Run) (executor.Pass, error) {
	p, err := r.Null.Begin(run)
	if err != nil {
		return nil, err
	}
	if r.alone[run.Pass] && r.opened > 0 {
		return nil, engine.Errorf(engine.CodeOverloaded, "no room")
	}
	r.log.add("begin %d", run.Pass)
	r.opened++
	return &timedPass{Pass: p, r: r, id: run.Pass, steps: 2 * int(run.Items[0].Job)}, nil
}

func (p *timedPass) Step() (bool, error) {
	time.Sleep(max(p.r.step, stepTime))
	p.taken++
	p.r.log.add("step %d.%d", p.id, p.taken)
	return p.taken == p.steps, nil
}

func (p *timedPass) Prepare() func() {
	takes, ok := p.r.preparing[p.id]
	if !ok {
		return nil
	}
	return func() {
		p.r.log.add("prepare %d", p.id)
		time.Sleep(takes)
		if takes == 0 {
			panic("while it is prepared")
		}
	}
}

func (p *timedPass) Boundary() bool { return p.taken%2 == 0 }
func (p *timedPass) Share() float64 { return float64(p.taken) / float64(p.steps) }
func (p *timedPass) Close()         { p.r.opened--; p.r.log.add("close %d", p.id) }

// transcript is what the runner does and what the executor says, with the milliseconds at which it does.
type transcript struct {
	begun time.Time
	quiet bool // Hellos are left out; else those without an Executor are
	all   bool // none is
	mu    sync.Mutex
	lines []string        // guarded by mu
	steps []time.Duration // guarded by mu; of model c, each time that it is told
}

func (l *transcript) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf("%d ", time.Since(l.begun).Milliseconds())+fmt.Sprintf(format, args...))
}

func (l *transcript) Send(m wire.Message) error {
	switch m := m.(type) {
	case *wire.Hello:
		if m.Executor != nil && len(m.Executor.Models) == 3 {
			l.mu.Lock()
			l.steps = append(l.steps, m.Executor.Models[2].Step)
			l.mu.Unlock()
		}
		if !l.quiet && (m.Executor != nil || l.all) {
			l.add("-> %s", describe(m))
		}
	case *wire.Loaded:
		l.add("-> loaded %d: %d in %v%s", m.Serial, m.Count, m.Took, reason(m.Err != nil, func() string { return m.Err.Message }))
	case *wire.Done:
		l.add("-> done %d in %v%s", m.Pass, m.Took, reason(m.Err != nil, func() string { return m.Err.Message }))
	case *wire.Paused:
		if m.Prepares {
			l.add("-> %d prepares", m.Pass)
		} else {
			l.add("-> paused %d at %.2f", m.Pass, m.Share)
		}
	}
	return nil
}

func reason(failed bool, message func() string) string {
	if failed {
		return ": " + message()
	}
	return ""
}

func describe(h *wire.Hello) string {
	if h.Executor == nil {
		return "hello"
	}
	var resident []int
	for i, w := range h.Executor.Weights {
		if w.Resident {
			resident = append(resident, i)
		}
	}
	if why := h.Executor.Models[0].Reason; why != "" {
		return fmt.Sprintf("hello, %s: %s, resident %v", h.Executor.Models[0].Name, why, resident)
	}
	return fmt.Sprintf("hello, %d models, resident %v", len(h.Executor.Models), resident)
}

// stage is an executor over a timed runner that has been welcomed at time 0.
type stage struct {
	*transcript
	runner  *timed
	to      chan wire.Message
	changes chan func() error
	logged  *observer.ObservedLogs
}

func (s *stage) Recv(ctx context.Context) (wire.Message, error) {
	select {
	case m := <-s.to:
		return m, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// at sends messages at a time.
func (s *stage) at(ms int, msgs ...wire.Message) {
	time.Sleep(time.Until(s.begun.Add(time.Duration(ms) * time.Millisecond)))
	synctest.Wait()
	for _, m := range msgs {
		s.to <- m
	}
}

// play lets an executor act and compares what it does with want.
func play(t *testing.T, want string, script func(s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		core, logged := observer.New(zap.ErrorLevel)
		info := pool()
		info.Nests = true
		log := &transcript{begun: time.Now(), quiet: true}
		s := &stage{transcript: log, logged: logged, to: make(chan wire.Message, 100), changes: make(chan func() error)}
		s.runner = &timed{Null: executor.NewNull(info), log: log, failed: map[uint32]error{}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			cfg := executor.Config{Name: "cpu-0", Heartbeat: time.Hour, Log: zap.New(core), Changes: s.changes}
			ended <- executor.Run(ctx, cfg, s, func() (executor.Runner, error) { return s.runner, nil })
		}()
		s.at(0, &wire.Welcome{Epoch: 1}, &wire.Welcome{Epoch: 1})
		synctest.Wait()
		script(s)
		time.Sleep(time.Second)
		synctest.Wait()
		got := strings.Join(s.lines, "\n")
		if want := strings.ReplaceAll(strings.TrimSpace(want), "\t", ""); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		cancel()
		if err := <-ended; err != nil || s.runner.opened != 0 {
			t.Errorf("Run = %v with %d passes open", err, s.runner.opened)
		}
	})
}

// of makes a run of a pass of so many layers of a model.
func of(id wire.PassID, model string, layers int) *wire.Run {
	r := pass(id, engine.JobID(layers))
	r.Model = model
	return r
}

func nested(id wire.PassID, model string, layers int) *wire.Run {
	r := of(id, model, layers)
	r.Nested = true
	return r
}

// TestLoadsTakeTurnsWithSteps: a load and a pass each have half of the time, and a load alone has all of it.
func TestLoadsTakeTurnsWithSteps(t *testing.T) {
	play(t, `
		0 begin 1
		4 step 1.1
		4 load 3 for b
		18 step 1.2
		22 step 1.3
		26 step 1.4
		26 load 2 for b
		40 step 1.5
		44 step 1.6
		44 close 1
		44 -> done 1 in 24ms
		44 load 1 for b
		54 -> loaded 7: 3 in 30ms
		54 begin 2
		58 step 2.1
		62 step 2.2
		62 close 2
		62 -> done 2 in 8ms
	`, func(s *stage) {
		s.at(0, of(1, "c", 3))
		s.at(2, &wire.Load{Serial: 7, Model: "b", Weights: []uint32{3, 2, 1}})
		s.at(50, of(2, "b", 1))
	})
}

// TestLoadsThatFail: an error, a panic or a piece that there is not ends a load, and what was loaded before
// stays.
func TestLoadsThatFail(t *testing.T) {
	play(t, `
		0 load 3 for b
		10 load 2 for b
		20 -> loaded 1: 1 in 20ms: executor cpu-0: no memory
		20 load 0 for a
		30 -> loaded 2: 0 in 10ms: executor cpu-0: panic: in a load
		30 load 1 for a
		40 -> loaded 3: 1 in 10ms: executor cpu-0: model a is to be loaded with piece 4 of weights, of 4
		40 -> loaded 4: 0 in 0s
		40 -> done 1 in 0s: executor cpu-0: model b: piece 1 of 3 of its weights is not loaded
		40 load 2 for b
		50 -> loaded 5: 1 in 10ms
		50 begin 2
		54 step 2.1
		58 step 2.2
		58 close 2
		58 -> done 2 in 8ms
	`, func(s *stage) {
		s.runner.failed = map[uint32]error{2: errors.New("no memory"), 0: errPanic}
		s.at(0, &wire.Load{Serial: 1, Model: "b", Weights: []uint32{3, 2, 1}}, &wire.Load{Serial: 2, Model: "a", Weights: []uint32{0, 1}},
			&wire.Load{Serial: 3, Model: "a", Weights: []uint32{1, 4}}, &wire.Load{Serial: 4, Model: "c"})
		s.at(40)
		delete(s.runner.failed, 2)
		s.at(40, of(1, "b", 1))
		synctest.Wait()
		s.at(40, &wire.Load{Serial: 5, Model: "b", Weights: []uint32{2}})
		s.at(50, of(2, "b", 1))
	})
}

// TestFailedModelsAreTold: what a load finds out of a model is told at once.
func TestFailedModelsAreTold(t *testing.T) {
	play(t, `
		0 load 0 for a
		10 -> loaded 1: 0 in 10ms: executor cpu-0: no such file
		10 -> hello, a: no such file, resident []
		10 load 3 for b
		20 -> loaded 2: 1 in 10ms
	`, func(s *stage) {
		s.quiet = false
		s.runner.failed = map[uint32]error{0: errors.New("no such file")}
		s.at(0, &wire.Load{Serial: 1, Model: "a", Weights: []uint32{0, 1}}, &wire.Load{Serial: 2, Model: "b", Weights: []uint32{3}})
	})
}

// TestSchedulerLostInALoad: the load is gone with the old epoch, and the new one tells what is resident.
func TestSchedulerLostInALoad(t *testing.T) {
	for _, news := range []wire.Message{&wire.Welcome{Epoch: 2}, &wire.Lost{}} {
		play(t, `
			0 load 0 for a
			10 -> hello, 3 models, resident [0]
			10 -> hello, 3 models, resident [0]
			10 load 1 for a
			20 -> loaded 1: 1 in 10ms
			20 begin 1
			24 step 1.1
			28 step 1.2
			28 close 1
			28 -> done 1 in 8ms
			28 -> hello, 3 models, resident [0 1]
		`, func(s *stage) {
			s.quiet = false
			s.at(0, &wire.Load{Serial: 9, Model: "a", Weights: []uint32{0, 1}}, &wire.Load{Serial: 10, Model: "b", Weights: []uint32{2}})
			s.at(5, news)
			s.at(10, &wire.Welcome{Epoch: 2}, &wire.Load{Serial: 1, Model: "a", Weights: []uint32{1}}, of(1, "a", 1), &wire.Welcome{Epoch: 2})
		})
	}
}

// TestDropOfWeightsInUse: they stay, the defect is logged, and the scheduler is told what is resident.
func TestDropOfWeightsInUse(t *testing.T) {
	play(t, `
		0 load 0 for a
		10 load 1 for a
		20 load 3 for a
		30 load 2 for a
		40 -> loaded 1: 4 in 40ms
		40 begin 1
		44 step 1.1
		44 drop [2 3]
		44 -> hello, 3 models, resident [0 1]
		48 step 1.2
		48 -> paused 1 at 0.50
		48 drop []
		48 -> hello, 3 models, resident [0 1]
		52 step 1.3
		56 step 1.4
		56 close 1
		56 -> done 1 in 16ms
		60 drop [0 1]
	`, func(s *stage) {
		s.quiet = false
		s.at(0, &wire.Load{Serial: 1, Model: "a", Weights: []uint32{0, 1, 3, 2}})
		s.at(40, of(1, "a", 2))
		s.at(42, &wire.Drop{Weights: []uint32{2, 1, 3, 77}}, &wire.Pause{Pass: 1})
		s.at(48, &wire.Drop{Weights: []uint32{0}}, &wire.Resume{Pass: 1})
		s.at(60, &wire.Drop{Weights: []uint32{0, 1}})
		synctest.Wait()
		if n := s.logged.FilterMessageSnippet("in use").Len(); n != 3 {
			s.add("%d pieces were logged, want 3: %v", n, s.logged.All())
		}
	})
}

// TestPausesAtBoundaries: a pass goes on to the end of its layer, and another one begins behind it.
func TestPausesAtBoundaries(t *testing.T) {
	play(t, `
		0 begin 1
		4 step 1.1
		8 step 1.2
		12 step 1.3
		16 step 1.4
		16 -> paused 1 at 0.67
		16 begin 2
		20 step 2.1
		24 step 2.2
		24 close 2
		24 -> done 2 in 8ms
		28 step 1.5
		32 step 1.6
		32 close 1
		32 -> done 1 in 24ms
	`, func(s *stage) {
		s.at(0, of(1, "c", 3))
		s.at(9, of(2, "c", 1), &wire.Pause{Pass: 1})
		s.at(22, &wire.Resume{Pass: 1})
		s.at(29, &wire.Pause{Pass: 1}) // its end comes first
	})
}

// TestAbortsInsideALayer: a pass is dropped wherever it is, also one that waits to be nested.
func TestAbortsInsideALayer(t *testing.T) {
	play(t, `
		0 begin 1
		4 step 1.1
		4 close 1
		4 begin 2
		8 step 2.1
		12 step 2.2
		12 close 2
		12 -> done 2 in 8ms
	`, func(s *stage) {
		s.at(0, of(1, "c", 3))
		s.at(1, of(2, "c", 1), nested(3, "c", 1), &wire.Abort{Pass: 3}, &wire.Abort{Pass: 1})
	})
}

// TestNestedPasses run whole at the next step, whose time is not the outer pass's.
func TestNestedPasses(t *testing.T) {
	play(t, `
		0 begin 1
		4 step 1.1
		4 begin 2
		8 step 2.1
		12 step 2.2
		12 close 2
		12 -> done 2 in 8ms
		12 -> done 3 in 0s: executor cpu-0: model a: piece 0 of 2 of its weights is not loaded
		16 step 1.2
		20 step 1.3
		24 step 1.4
		24 close 1
		24 -> done 1 in 16ms
		30 begin 4
		34 step 4.1
		38 step 4.2
		38 close 4
		38 -> done 4 in 8ms
		38 load 0 for a
		48 -> loaded 1: 1 in 10ms
	`, func(s *stage) {
		s.at(0, of(1, "c", 2))
		s.at(1, nested(2, "c", 1), nested(3, "a", 1))
		s.at(30, nested(4, "c", 1), &wire.Load{Serial: 1, Model: "a", Weights: []uint32{0}})
	})
}

// TestChanges are made between two steps, told anew, and logged where they fail.
func TestChanges(t *testing.T) {
	play(t, `
		0 begin 1
		4 step 1.1
		4 changed
		4 -> hello, 2 models, resident []
		8 step 1.2
		8 close 1
		8 -> done 1 in 8ms
		9 -> hello, 2 models, resident []
		10 -> hello, 2 models, resident []
	`, func(s *stage) {
		s.quiet = false
		s.at(0, of(1, "c", 1))
		s.at(2)
		s.changes <- func() error {
			s.add("changed")
			info := pool()
			info.Models = slices.Delete(info.Models, 0, 1)
			*s.runner.Null = *executor.NewNull(info)
			return nil
		}
		s.at(9)
		s.changes <- func() error { return errors.New("no such file") }
		s.at(10)
		s.changes <- func() error { panic("in a change") }
		synctest.Wait()
		if n := s.logged.FilterMessageSnippet("not changed").Len(); n != 2 {
			s.add("%d changes that fail were logged, want 2", n)
		}
	})
}
