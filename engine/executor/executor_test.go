package executor_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/executor/runnertest"
	"github.com/prefillonly/prefillonly/engine/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var info = wire.ExecutorInfo{
	Device: "null", CanPause: true,
	Models: []wire.ModelInfo{{
		Name: "m", Fingerprint: "f", Tokens: &wire.TokenLimits{VocabSize: 100, MaxModelLen: 1000, BlockTokens: 16, NumBlocks: 10, MaxPassRows: 100},
	}},
}

func TestNullConforms(t *testing.T) {
	runnertest.Run(t, func(*testing.T) executor.Runner { return executor.NewNull(info) })
}

func TestNullOfManyModelsConforms(t *testing.T) {
	runnertest.Run(t, func(*testing.T) executor.Runner { return executor.NewNull(pool()) })
}

// pool is an executor of two models, which have a piece of weights in common, and of one that has none.
func pool() wire.ExecutorInfo {
	limits := *info.Models[0].Tokens
	return wire.ExecutorInfo{
		Device: "null", CanPause: true, Weights: []wire.Weight{{Bytes: 10}, {Bytes: 20}, {Bytes: 10}, {Bytes: 30}},
		Models: []wire.ModelInfo{
			{Name: "a", Fingerprint: "1", Weights: []uint32{0, 1}, Tokens: &limits},
			{Name: "b", Fingerprint: "2", Weights: []uint32{3, 2, 1}, Tokens: &limits},
			{Name: "c", Fingerprint: "3", Tokens: &limits},
		},
	}
}

// stepped is a Runner of four layers of one step, each of which says that it has begun and waits to be let
// through. Passes of a job above 90 misbehave.
type stepped struct {
	*executor.Null
	entered chan engine.JobID
	gate    chan struct{}

	open   int // passes begun and not closed; of the executor's thread
	closed bool
}

const layers = 4

type steppedPass struct {
	executor.Pass
	r     *stepped
	job   engine.JobID
	layer int
}

func (r *stepped) Begin(run *wire.Run) (executor.Pass, error) {
	switch run.Items[0].Job {
	case 91:
		return nil, errors.New("no memory")
	case 92:
		return nil, engine.Errorf(engine.CodeTooLong, "too long")
	case 93:
		panic("begin")
	}
	p, err := r.Null.Begin(run)
	r.open++
	return &steppedPass{Pass: p, r: r, job: run.Items[0].Job}, err
}

func (r *stepped) Close() { r.closed = true }

func (p *steppedPass) Step() (bool, error) {
	p.r.entered <- p.job
	<-p.r.gate
	if p.job == 94 {
		panic("step")
	}
	p.layer++
	return p.layer == layers, nil
}

func (p *steppedPass) Share() float64 { return float64(p.layer) / layers }
func (p *steppedPass) Close()         { p.r.open-- }

// wires is a connection whose Send and Recv meet the test's own hands.
type wires struct{ to, from chan wire.Message }

func (w wires) Send(m wire.Message) error { w.from <- m; return nil }

func (w wires) Recv(ctx context.Context) (wire.Message, error) {
	select {
	case m, ok := <-w.to:
		if !ok {
			return nil, errHungUp
		}
		return m, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

var errHungUp = errors.New("hung up")

// bench is an executor with its runner, seen from the scheduler.
type bench struct {
	*testing.T
	wires
	runner *stepped
	epoch  uint64 // the scheduler's
	known  uint64 // the executor's
}

func start(t *testing.T, heartbeat time.Duration) *bench {
	return startWith(t, executor.Config{Heartbeat: heartbeat})
}

func startWith(t *testing.T, cfg executor.Config) *bench {
	b := &bench{
		T: t, wires: wires{make(chan wire.Message), make(chan wire.Message, 1000)}, epoch: 1,
		runner: &stepped{Null: executor.NewNull(info), entered: make(chan engine.JobID, 1000), gate: make(chan struct{})},
	}
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() {
		cfg.Name, cfg.Log = "cpu-0", zap.NewNop()
		result <- executor.Run(ctx, cfg, b.wires, func() (executor.Runner, error) { return b.runner, nil })
	}()
	t.Cleanup(func() {
		cancel()
		close(b.runner.gate)
		if err := <-result; err != nil {
			t.Errorf("Run = %v, want nil after the context's end", err)
		}
		if b.runner.open != 0 || !b.runner.closed {
			t.Errorf("%d passes left open, runner closed: %v", b.runner.open, b.runner.closed)
		}
	})
	return b
}

// send returns when the messages are in the executor's mailbox: they are followed by a Welcome
// without news, which is taken up only after them.
func (b *bench) send(msgs ...wire.Message) {
	for _, m := range append(msgs, &wire.Welcome{Epoch: b.epoch}) {
		b.to <- m
	}
}

// recv lets layers pass until the executor has sent something.
func (b *bench) recv() wire.Message {
	b.Helper()
	for {
		select {
		case m := <-b.from:
			return m
		case b.runner.gate <- struct{}{}:
		case <-time.After(5 * time.Second):
			b.Fatal("the executor is silent")
		}
	}
}

// hello takes a Hello that tells what the executor can run.
func (b *bench) hello() *wire.Hello {
	b.Helper()
	for {
		h, ok := b.recv().(*wire.Hello)
		if ok && h.Executor == nil {
			continue
		}
		if !ok || h.Role != wire.RoleExecutor || h.Name != "cpu-0" || h.Epoch == 0 || !reflect.DeepEqual(stepless(h.Executor), info) {
			b.Fatalf("got %+v, want Hello", h)
		}
		return h
	}
}

// stepless is an info without what was measured.
func stepless(i *wire.ExecutorInfo) wire.ExecutorInfo {
	without := *i
	without.Models = slices.Clone(i.Models)
	for k := range without.Models {
		without.Models[k].Step = 0
	}
	return without
}

// answer is the next message but Hellos.
func (b *bench) answer() wire.Message {
	b.Helper()
	for {
		m := b.recv()
		if _, hello := m.(*wire.Hello); !hello {
			return m
		}
	}
}

// welcome answers the first Hello; the executor then says it again under the same epoch, and wants
// an answer to that too before it begins a pass.
func (b *bench) welcome() *wire.Hello {
	b.Helper()
	first := b.hello()
	for first.Epoch == b.known { // that tells of what was measured
		first = b.hello()
	}
	b.known = first.Epoch
	b.send(pass(99, 90))
	if second := b.hello(); second.Epoch != first.Epoch {
		b.Fatal("the first Welcome changed the executor's epoch")
	}
	if len(b.from) != 0 || len(b.runner.entered) != 0 {
		b.Fatal("a pass was begun before the second Welcome")
	}
	b.send()
	b.wantDone(99)
	return first
}

// inLayer waits until a layer of the job has begun.
func (b *bench) inLayer(job engine.JobID) {
	for <-b.runner.entered != job {
	}
}

func pass(id wire.PassID, job engine.JobID) *wire.Run {
	return &wire.Run{Pass: id, Model: "m", Items: []wire.RunItem{{Job: job, Work: &wire.TokenItem{Tokens: []engine.TokenID{1, 2, 3}}}}}
}

func (b *bench) wantDone(id wire.PassID) *wire.Done {
	b.Helper()
	m := b.answer()
	d, ok := m.(*wire.Done)
	if !ok || d.Pass != id {
		b.Fatalf("got %T %+v, want Done of pass %d", m, m, id)
	}
	return d
}

func (b *bench) wantPaused(id wire.PassID, layer int) {
	b.Helper()
	if m := b.answer(); !reflect.DeepEqual(m, &wire.Paused{Pass: id, Share: float64(layer) / layers}) {
		b.Fatalf("got %T %+v, want Paused of pass %d at layer %d", m, m, id, layer)
	}
}

func TestRunsInOrder(t *testing.T) {
	b := start(t, time.Hour)
	b.welcome()
	b.send(pass(1, 11), pass(2, 12))
	d := b.wantDone(1)
	if d.Err != nil || len(d.Items) != 1 || d.Items[0].Job != 11 || d.Took <= 0 {
		t.Errorf("Done = %+v", d)
	}
	b.wantDone(2)
}

func TestPauseAndResume(t *testing.T) {
	b := start(t, time.Hour)
	b.welcome()
	b.send(pass(1, 11))
	b.inLayer(11)
	b.send(&wire.Pause{Pass: 1}, pass(2, 12))
	b.wantPaused(1, 1)
	b.wantDone(2)
	b.send(&wire.Resume{Pass: 1})
	b.wantDone(1)
	b.send(&wire.Pause{Pass: 1}, &wire.Resume{Pass: 1}, pass(3, 13)) // too late: nothing but pass 3
	b.wantDone(3)
}

func TestPauseOfAWaitingPass(t *testing.T) {
	b := start(t, time.Hour)
	b.welcome()
	b.send(pass(1, 11))
	b.inLayer(11)
	b.send(pass(2, 12), &wire.Pause{Pass: 2})
	b.wantPaused(2, 0)
	b.wantDone(1)
	b.send(&wire.Resume{Pass: 2})
	b.wantDone(2)
}

func TestAbort(t *testing.T) {
	b := start(t, time.Hour)
	b.welcome()
	b.send(pass(1, 11))
	b.inLayer(11)
	b.send(pass(2, 12), pass(3, 13), &wire.Abort{Pass: 1}, &wire.Abort{Pass: 2}, &wire.Abort{Pass: 77})
	b.wantDone(3)
	b.send(pass(4, 14))
	b.inLayer(14)
	b.send(&wire.Pause{Pass: 4})
	b.wantPaused(4, 1)
	b.send(&wire.Abort{Pass: 4}, &wire.Resume{Pass: 4}, pass(5, 15))
	b.wantDone(5)
}

// TestNewSchedulerForgetsPasses: a scheduler that lost its memory must not hear of old passes.
func TestNewSchedulerForgetsPasses(t *testing.T) {
	for name, news := range map[string]wire.Message{"restarted": &wire.Welcome{Epoch: 2}, "broken connection": &wire.Lost{}} {
		t.Run(name, func(t *testing.T) {
			b := start(t, time.Hour)
			first := b.welcome()
			b.send(pass(1, 11), pass(2, 12))
			b.inLayer(11)
			b.to <- news
			b.to <- &wire.Cancel{} // not meant for an executor; passed over
			b.epoch = 2
			if second := b.welcome(); second.Epoch == first.Epoch {
				t.Fatal("Hello to a new scheduler has the old epoch")
			}
			b.send(pass(3, 13))
			b.wantDone(3)
		})
	}
}

func TestDefectsCostOnePass(t *testing.T) {
	b := start(t, time.Hour)
	b.welcome()
	for _, c := range []struct {
		job  engine.JobID
		code engine.Code
		want string
	}{
		{91, engine.CodeInternal, "executor cpu-0: no memory"},
		{92, engine.CodeTooLong, "too long"},
		{93, engine.CodeInternal, "panic: begin"},
		{94, engine.CodeInternal, "panic: step"},
	} {
		b.send(pass(wire.PassID(c.job), c.job))
		d := b.wantDone(wire.PassID(c.job))
		if d.Err == nil || d.Err.Code != c.code || !strings.Contains(d.Err.Message, c.want) || d.Items != nil {
			t.Errorf("job %d: %+v, want code %v and %q", c.job, d.Err, c.code, c.want)
		}
	}
	b.send(pass(1, 11))
	b.wantDone(1)
}

func TestImpossiblePassesAreRefused(t *testing.T) {
	b := start(t, time.Hour)
	b.welcome()
	one := []engine.TokenID{1}
	for _, c := range []struct {
		item *wire.TokenItem
		want string
	}{
		{nil, "without items"},
		{&wire.TokenItem{Tokens: one, Cached: 1}, "1 tokens, 1 of them cached"},
		{&wire.TokenItem{Tokens: make([]engine.TokenID, 1001)}, "1001 tokens"},
		{&wire.TokenItem{Tokens: []engine.TokenID{1, 2}, Cached: 1}, "1 cached tokens in 0 blocks"},
		{&wire.TokenItem{Tokens: []engine.TokenID{100}}, "token 100"},
		{&wire.TokenItem{Tokens: one, Blocks: []wire.BlockID{10}}, "block 10 of 10"},
	} {
		run := &wire.Run{Pass: 1, Model: "m"}
		if c.item != nil {
			run.Items = []wire.RunItem{{Work: c.item}}
		}
		b.send(run)
		if d := b.wantDone(1); d.Err == nil || !strings.Contains(d.Err.Message, c.want) {
			t.Errorf("%+v: %v, want an error with %q", c.item, d.Err, c.want)
		}
	}
}

func TestFailuresEndRun(t *testing.T) {
	broken := errors.New("no such checkpoint")
	cfg := executor.Config{Name: "cpu-0", Heartbeat: time.Hour, Log: zap.NewNop()}
	w := wires{make(chan wire.Message), make(chan wire.Message, 10)}
	if err := executor.Run(context.Background(), cfg, w, func() (executor.Runner, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("Run = %v, want %v", err, broken)
	}
	close(w.to)
	open := func() (executor.Runner, error) { return executor.NewNull(info), nil }
	if err := executor.Run(context.Background(), cfg, w, open); !errors.Is(err, errHungUp) {
		t.Errorf("Run over a closed connection = %v, want %v", err, errHungUp)
	}
}

// TestHeartbeat: Hello goes on during a long layer.
func TestHeartbeat(t *testing.T) {
	b := start(t, time.Millisecond)
	b.hello()
	b.send()
	b.send(pass(1, 11))
	b.inLayer(11)
	for range 20 {
		if m, ok := (<-b.from).(*wire.Hello); !ok {
			t.Errorf("got %+v, want Hello", m)
		}
	}
}

// TestAlive: the loop says that it goes on while it has nothing to do and between layers, and falls silent
// inside a layer that does not return.
func TestAlive(t *testing.T) {
	var said atomic.Int64
	b := startWith(t, executor.Config{Heartbeat: time.Millisecond, Alive: func() { said.Add(1) }})
	b.hello()
	for before := said.Load(); said.Load() < before+5; {
		time.Sleep(time.Millisecond) // without work
	}
	b.send()
	b.send(pass(1, 11))
	b.inLayer(11)
	before := said.Load()
	time.Sleep(50 * time.Millisecond)
	if n := said.Load() - before; n != 0 {
		t.Errorf("said %d times that it goes on inside a layer that does not return", n)
	}
	b.wantEnd(1)
	if said.Load() < before+layers-1 {
		t.Errorf("said %d times that it goes on over the layers after the first, want %d", said.Load()-before, layers-1)
	}
}

// wantEnd waits for the end of a pass through the heartbeats.
func (b *bench) wantEnd(id wire.PassID) {
	b.Helper()
	for {
		if d, ok := b.recv().(*wire.Done); ok && d.Pass == id {
			return
		}
	}
}
