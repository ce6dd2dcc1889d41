package executor_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// strict is a timed runner that holds its caller to what Runner asks of it.
type strict struct {
	*timed
	t      *testing.T
	open   map[*strictPass]bool
	inside *strictPass // a pass that is not at a boundary and not nested
}

type strictPass struct {
	executor.Pass
	r           *strict
	run         *wire.Run
	done, ended bool
	prepares    atomic.Bool
}

// Prepare is of every third pass.
func (p *strictPass) Prepare() func() {
	if p.run.Pass%3 > 0 {
		return nil
	}
	return func() {
		p.prepares.Store(true)
		time.Sleep(7 * time.Millisecond)
		p.prepares.Store(false)
	}
}

func (r *strict) check(ok bool, format string, args ...any) {
	if !ok {
		r.t.Errorf(format, args...)
	}
}

func (r *strict) Load(model string, weight uint32) (done bool, err error) {
	r.check(int(weight) < len(r.Info().Weights), "piece %d is loaded", weight)
	return r.timed.Load(model, weight)
}

func (r *strict) Drop(weights []uint32) {
	info := r.Info()
	for _, w := range weights {
		r.check(int(w) < len(info.Weights), "piece %d is dropped", w)
		for p := range r.open {
			for _, m := range info.Models {
				for _, needed := range m.Weights {
					r.check(m.Name != p.run.Model || needed != w, "piece %d is dropped under pass %d", w, p.run.Pass)
				}
			}
		}
	}
	r.timed.Drop(weights)
}

func (r *strict) Begin(run *wire.Run) (executor.Pass, error) {
	r.check(run.Nested || r.inside == nil, "pass %d is begun inside a layer of another", run.Pass)
	p, err := r.timed.Begin(run)
	if err != nil {
		return nil, err
	}
	s := &strictPass{Pass: p, r: r, run: run}
	r.open[s] = true
	return s, nil
}

func (p *strictPass) Step() (bool, error) {
	r := p.r
	r.check(!p.prepares.Load() && !p.done && !p.ended && (p.run.Nested || r.inside == nil || r.inside == p), "a step of pass %d is taken", p.run.Pass)
	done, err := p.Pass.Step()
	if p.done = done; !p.run.Nested {
		r.inside = nil
		if !p.Boundary() {
			r.inside = p
		}
	}
	return done, err
}

func (p *strictPass) Results() []wire.ItemResult {
	p.r.check(p.done && !p.ended, "pass %d is asked for results", p.run.Pass)
	return p.Pass.Results()
}

func (p *strictPass) Close() {
	p.r.check(!p.ended, "pass %d is closed twice", p.run.Pass)
	p.r.check(!p.prepares.Load(), "pass %d is closed while it is prepared", p.run.Pass)
	p.ended = true
	delete(p.r.open, p)
	if p.r.inside == p {
		p.r.inside = nil
	}
	p.Pass.Close()
}

// answers counts what is said of passes and loads.
type answers struct {
	*transcript
	to   chan wire.Message
	ends map[string]int
	made map[wire.PassID]bool // passes that prepare
}

func (a *answers) Send(m wire.Message) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch m := m.(type) {
	case *wire.Done:
		a.ends[fmt.Sprint("pass ", m.Pass)]++
	case *wire.Paused:
		if a.made[m.Pass] {
			a.to <- &wire.Resume{Pass: m.Pass}
		}
		a.made[m.Pass] = m.Prepares
	case *wire.Loaded:
		a.ends[fmt.Sprint("load ", m.Serial)]++
	}
	return nil
}

func (a *answers) Recv(ctx context.Context) (wire.Message, error) {
	return (&stage{to: a.to}).Recv(ctx)
}

// TestAnyMessagesKeepTheContract sends messages in a random order, sensible or not: whatever comes, the runner
// is used as it asks, every load is answered once and so is every pass, but those that are aborted or stand
// still.
func TestAnyMessagesKeepTheContract(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) { anyMessages(t, seed) })
	}
}

func anyMessages(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	info := pool()
	info.Nests = true
	log := &transcript{begun: time.Now()}
	r := &strict{timed: &timed{Null: executor.NewNull(info), log: log}, t: t, open: map[*strictPass]bool{}}
	a := &answers{transcript: log, to: make(chan wire.Message, 1000), ends: map[string]int{}, made: map[wire.PassID]bool{}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		cfg := executor.Config{Name: "cpu-0", Heartbeat: time.Hour, Log: zap.NewNop()}
		ended <- executor.Run(ctx, cfg, a, func() (executor.Runner, error) { return r, nil })
	}()
	a.to <- &wire.Welcome{Epoch: 1}
	a.to <- &wire.Welcome{Epoch: 1}
	least, most := map[string]int{}, map[string]int{} // answers
	for n := range wire.PassID(60) {
		model := []string{"a", "b", "c", "c", "none"}[random.IntN(5)]
		pieces := make([]uint32, random.IntN(4))
		for i := range pieces {
			pieces[i] = uint32(random.IntN(5))
		}
		some := wire.PassID(random.IntN(int(n) + 1))
		one := fmt.Sprint("pass ", some)
		switch random.IntN(8) {
		case 0, 1, 2:
			run := of(n, model, 1+random.IntN(4))
			run.Nested = random.IntN(4) == 0
			a.to <- run
			least[fmt.Sprint("pass ", n)], most[fmt.Sprint("pass ", n)] = 1, 1
		case 3:
			a.to <- &wire.Pause{Pass: some}
			least[one] = 0
		case 4:
			a.to <- &wire.Resume{Pass: some}
		case 5:
			a.to <- &wire.Abort{Pass: some}
			least[one] = 0
		case 6:
			a.to <- &wire.Load{Serial: uint64(n), Model: model, Weights: pieces}
			least[fmt.Sprint("load ", n)], most[fmt.Sprint("load ", n)] = 1, 1
		case 7:
			a.to <- &wire.Drop{Weights: pieces}
		}
		time.Sleep(time.Duration(random.IntN(15)) * time.Millisecond)
	}
	time.Sleep(time.Minute)
	synctest.Wait()
	a.mu.Lock()
	for what, n := range a.ends {
		if n > most[what] {
			t.Errorf("seed %d: %d answers for %s, want %d", seed, n, what, most[what])
		}
	}
	for what, n := range least {
		if a.ends[what] < n {
			t.Errorf("seed %d: %d answers for %s, want %d", seed, a.ends[what], what, n)
		}
	}
	a.mu.Unlock()
	cancel()
	if err := <-ended; err != nil || len(r.open) != 0 {
		t.Errorf("seed %d: Run = %v with %d passes open", seed, err, len(r.open))
	}
}
