package scheduler

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// pipe is a connection whose far end is the test.
type pipe struct {
	in   chan inbound
	out  chan Envelope
	dead map[string]bool // guarded by the test: changed only while Run waits
}

func (p *pipe) Recv(ctx context.Context) (string, wire.Message, error) {
	select {
	case m, ok := <-p.in:
		if !ok {
			return "", nil, errors.New("the socket is broken")
		}
		return string(m.from), m.msg, nil
	case <-ctx.Done():
		return "", nil, ctx.Err()
	}
}

func (p *pipe) Send(peer string, m wire.Message) error {
	if p.dead[peer] {
		return errors.New("no such peer")
	}
	p.out <- Envelope{To: PeerID(peer), Msg: m}
	return nil
}

// await returns the next message that is no Welcome.
func (p *pipe) await() Envelope {
	for e := range p.out {
		if _, ok := e.Msg.(*wire.Welcome); !ok {
			return e
		}
	}
	panic("the channel is never closed")
}

// serve runs a Server in a bubble of fake time, with a frontend and an executor.
func serve(t *testing.T, test func(p *pipe)) { servePublishing(t, nil, test) }

func servePublishing(t *testing.T, events publisher, test func(p *pipe)) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		s, err := NewServer(DefaultConfig(), 1, func() time.Duration { return time.Since(start) })
		if err != nil {
			t.Fatal(err)
		}
		if events != nil {
			s.PublishTo(events)
		}
		p := &pipe{in: make(chan inbound), out: make(chan Envelope, 1000), dead: map[string]bool{}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx, p) }() // ends with the cancel below
		info := executorInfo()
		p.in <- inbound{"web", &wire.Hello{Role: wire.RoleFrontend, Name: "web", Epoch: 1}}
		p.in <- inbound{"cpu", &wire.Hello{Role: wire.RoleExecutor, Name: "cpu", Epoch: 1, Executor: info.info()}}
		p.in <- inbound{"web", (&submission{Job: 1, Model: "m", Tokens: tokens(1, 10), MaxTokens: 1}).message()}
		test(p)
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run ended with %v, want nil at the end of its context", err)
		}
	})
}

func TestServerRunsAJob(t *testing.T) {
	serve(t, func(p *pipe) {
		run, ok := p.await().Msg.(*wire.Run)
		if !ok {
			t.Fatal("the job is not run")
		}
		time.Sleep(time.Second)
		p.in <- inbound{"cpu", answer(run, time.Second)}
		if r, ok := p.await().Msg.(*wire.Result); !ok || r.Finish != engine.FinishLength || r.Timing.Running != time.Second {
			t.Errorf("result %+v", r)
		}
	})
}

func TestServerSendsTheNextPassBeforeResults(t *testing.T) {
	serve(t, func(p *pipe) {
		run := p.await().Msg.(*wire.Run)
		p.in <- inbound{"web", (&submission{Job: 2, Model: "m", Tokens: tokens(2, 10), MaxTokens: 1}).message()}
		p.in <- inbound{"cpu", answer(run, time.Second)}
		first, second := p.await().Msg, p.await().Msg
		if next, ok := first.(*wire.Run); !ok || next.Pass == run.Pass {
			t.Errorf("after the first pass comes %T, want the next one", first)
		}
		if r, ok := second.(*wire.Result); !ok || r.Job != 1 {
			t.Errorf("then comes %T, want the result of job 1", second)
		}
	})
}

// batches is a publisher whose subscriber is the test.
type batches chan []byte

func (b batches) Publish(_ string, batch []byte) { b <- batch }

// TestServerPublishes lets two executors come, and a job store its blocks.
func TestServerPublishes(t *testing.T) {
	events := make(batches, 100)
	servePublishing(t, events, func(p *pipe) {
		run := p.await().Msg.(*wire.Run)
		info := executorInfo()
		p.in <- inbound{"gpu", &wire.Hello{Role: wire.RoleExecutor, Name: "gpu", Epoch: 1, Executor: info.info()}}
		p.in <- inbound{"cpu", answer(run, time.Second)}
		p.in <- inbound{"gpu", &wire.Lost{}}
		synctest.Wait()
	})
	close(events)
	r := &router{t: t, blocks: map[int]map[uint64]prefix{}}
	var sizes [][2]int
	for batch := range events {
		r.take(batch)
		sizes = append(sizes, [2]int{len(r.blocks[0]), len(r.blocks[1])})
	}
	if want := [][2]int{{0, 0}, {0, 0}, {2, 0}, {2, 0}}; !slices.Equal(sizes, want) {
		t.Errorf("blocks of the two executors after each batch %v, want %v", sizes, want)
	}
}

func TestServerTicks(t *testing.T) {
	serve(t, func(p *pipe) {
		p.await()
		for range 2 * ticksPerTimeout {
			time.Sleep(DefaultConfig().PeerTimeout / ticksPerTimeout)
			p.in <- inbound{"web", &wire.Hello{Role: wire.RoleFrontend, Name: "web", Epoch: 1}}
		}
		p.in <- inbound{"web", &wire.Cancel{Job: 99}}
		synctest.Wait()
		var last *wire.Welcome
		for len(p.out) > 0 {
			if w, ok := (<-p.out).Msg.(*wire.Welcome); ok {
				last = w
			}
		}
		if last == nil || len(last.Served) != 0 || len(last.Stats) != 1 || last.Stats[0].Waiting != 1 {
			t.Errorf("long after the executor fell silent the frontend hears %+v, want no model and one waiting job", last)
		}
	})
}

// TestServerSaysThatItGoesOn: at least once a second, however long its peers may be silent, and not while
// a step does not return.
func TestServerSaysThatItGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.PeerTimeout = time.Hour
		start := time.Now()
		s, err := NewServer(cfg, 1, func() time.Duration { return time.Since(start) })
		if err != nil {
			t.Fatal(err)
		}
		var ticks atomic.Int64
		s.OnTick(func() { ticks.Add(1) })
		p := &pipe{in: make(chan inbound), out: make(chan Envelope)} // a Send waits
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx, p) }() // ends with the cancel below
		time.Sleep(10500 * time.Millisecond)
		if n := ticks.Load(); n < 10 {
			t.Errorf("%d ticks in 10 s, want one a second", n)
		}
		p.in <- inbound{"web", &wire.Hello{Role: wire.RoleFrontend, Name: "web", Epoch: 1}}
		before := ticks.Load()
		time.Sleep(10 * time.Second)
		if n := ticks.Load() - before; n != 0 {
			t.Errorf("%d ticks in a step that does not return", n)
		}
		<-p.out
		cancel()
		<-ended
	})
}

func TestServerNoticesAnAbsentExecutor(t *testing.T) {
	serve(t, func(p *pipe) {
		p.await()
		synctest.Wait()
		p.dead["cpu"] = true
		p.in <- inbound{"web", (&submission{Job: 2, Model: "m", Tokens: tokens(2, 10), MaxTokens: 1}).message()}
		p.in <- inbound{"web", &wire.Cancel{Job: 1}} // its Abort cannot be sent
		synctest.Wait()
		p.dead["cpu"] = false
		info := executorInfo()
		p.in <- inbound{"cpu", &wire.Hello{Role: wire.RoleExecutor, Name: "cpu", Epoch: 2, Executor: info.info()}}
		if run, ok := p.await().Msg.(*wire.Run); !ok || run.Items[0].Job != 2 {
			t.Errorf("the returned executor gets %+v, want job 2", run)
		}
	})
}

func TestServerEndsWithItsConnection(t *testing.T) {
	s, err := NewServer(DefaultConfig(), 1, func() time.Duration { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	p := &pipe{in: make(chan inbound)}
	close(p.in)
	if err := s.Run(t.Context(), p); err == nil || !strings.Contains(err.Error(), "the socket is broken") {
		t.Errorf("Run ended with %v, want the connection's error", err)
	}
}

// TestServerDropsAFrameInTime: a frame that can no longer be in time is dropped when that is so, and not at the next
// tick or message.
func TestServerDropsAFrameInTime(t *testing.T) {
	serve(t, func(p *pipe) {
		p.await()
		synctest.Wait()
		time.Sleep(120 * time.Millisecond)
		m := (&submission{Job: 2, Model: "m", Tokens: tokens(2, 10), MaxTokens: 1, Deadline: 30 * time.Millisecond}).message()
		start := time.Now()
		p.in <- inbound{"web", m}
		r, ok := p.await().Msg.(*wire.Result)
		if waited := time.Since(start); !ok || r.Err == nil || r.Err.Code != engine.CodeDeadline || waited != 30*time.Millisecond {
			t.Errorf("after %v %+v, want the job dropped after 30 ms", waited, r)
		}
	})
}
