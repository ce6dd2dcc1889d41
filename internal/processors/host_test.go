package processors

import (
	"context"
	"encoding/gob"
	"errors"
	"net"
	"path/filepath"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/scheduler/stages"
)

// serveHost serves an order of so many slots until stop is called.
func serveHost(t testing.TB, path string, slots int) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		if err := Serve(ctx, path, parametersOf(slots)); err != nil {
			t.Error(err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); group.Wait() })
	t.Cleanup(stop)
	return stop
}

// follow is a Pool of a process that follows an order.
func follow(t testing.TB, path string) (p *Pool, leave func()) {
	p = New(2)
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { p.Follow(ctx, path) })
	leave = sync.OnceFunc(func() { cancel(); group.Wait() })
	t.Cleanup(leave)
	return p, leave
}

// eventually waits until something is so.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	for ends := time.Now().Add(10 * time.Second); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(ends) {
			t.Fatalf("waited 10 s until %s", what)
		}
	}
}

func linked(p *Pool) func() bool { return func() bool { return p.link() != nil } }

// hold runs a stage until it is let go; it returns when the stage runs.
func hold(t testing.TB, p *Pool, group *sync.WaitGroup, letGo <-chan struct{}) {
	begun := make(chan struct{})
	group.Go(func() {
		if _, err := p.Do(t.Context(), Stage{Kind: "held", Takes: 100 * time.Millisecond}, func() error { close(begun); <-letGo; return nil }); err != nil {
			t.Error(err)
		}
	})
	<-begun
}

// TestProcessesShareTheSlotsOfAHost: three processes together run no more than the host's slots.
func TestProcessesShareTheSlotsOfAHost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	serveHost(t, path, 2)
	var running, most, ran atomic.Int32
	var group sync.WaitGroup
	for range 3 {
		p, _ := follow(t, path)
		eventually(t, "it follows", linked(p))
		for range 30 {
			group.Go(func() {
				_, err := p.Do(WithSeat(t.Context()), Stage{Kind: "work", Takes: 100 * time.Millisecond}, func() error {
					for now := running.Add(1); now > most.Load(); {
						most.Store(now)
					}
					time.Sleep(time.Millisecond)
					running.Add(-1)
					ran.Add(1)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	group.Wait()
	if most.Load() != 2 || ran.Load() != 90 {
		t.Errorf("%d ran, %d at a time; want 90, 2 at a time", ran.Load(), most.Load())
	}
}

// TestSlotsOfAProcessThatIsGoneComeBack: what a process held and asked for ends with it.
func TestSlotsOfAProcessThatIsGoneComeBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	serveHost(t, path, 1)
	dying, die := follow(t, path)
	other, _ := follow(t, path)
	eventually(t, "both follow", func() bool { return dying.link() != nil && other.link() != nil })
	letGo := make(chan struct{})
	var group sync.WaitGroup
	hold(t, dying, &group, letGo)
	asked := time.Now()
	group.Go(func() {
		if _, err := other.Do(t.Context(), Stage{Takes: time.Second}, func() error { return nil }); err != nil {
			t.Error(err)
		}
		if took := time.Since(asked); took > 5*time.Second {
			t.Errorf("its slot came back after %v", took)
		}
		close(letGo)
	})
	eventually(t, "the other waits", other.Wanting)
	die()
	group.Wait()
}

// TestOrderOfAHostThatIsLost: stages that waited for a host's decision go on in their process's own order, and in a new one of the host.
func TestOrderOfAHostThatIsLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	stop := serveHost(t, path, 1)
	p, _ := follow(t, path)
	q, _ := follow(t, path)
	eventually(t, "both follow", func() bool { return p.link() != nil && q.link() != nil })
	letGo := make(chan struct{})
	var group sync.WaitGroup
	hold(t, q, &group, letGo)
	ran := make(chan struct{})
	group.Go(func() {
		if _, err := p.Do(t.Context(), Stage{Takes: time.Second}, func() error { close(ran); return nil }); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "one waits", p.Wanting)
	stop()
	<-ran
	close(letGo)
	group.Wait()
	serveHost(t, path, 1)
	eventually(t, "both follow the new one", func() bool { return p.link() != nil && q.link() != nil })
	if _, err := p.Do(t.Context(), Stage{Takes: time.Second}, func() error { return nil }); err != nil {
		t.Error(err)
	}
	eventually(t, "nothing is left", func() bool { waiting, running := q.Load(); return waiting == 0 && running == 0 })
}

// TestOrderOfAHostThatHangs: an order that takes connections and says nothing more holds no stage up.
func TestOrderOfAHostThatHangs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { // a host that is stopped once it has greeted
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			m := &member{conn: conn, out: make(chan reply, 1)}
			m.out <- reply{Load: load{Slots: 1}}
			close(m.out)
			m.writeMessages()
		}
	})
	p, leave := follow(t, path)
	defer leave()
	eventually(t, "it follows", linked(p))
	asked := time.Now()
	if _, err := p.Do(t.Context(), Stage{Takes: time.Second}, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(asked); took < silence/2 || took > 5*time.Second {
		t.Errorf("the stage began after %v", took)
	}
	listener.Close()
}

// TestSlotsOfAHostThatIsSilentForAWhile: what waits goes on meanwhile, and what runs still has its slot when the host is back.
func TestSlotsOfAHostThatIsSilentForAWhile(t *testing.T) {
	p, h := New(2), &host{core: stages.New(parametersOf(1)), members: map[*member]bool{}, owners: map[uint64]stageOf{}}
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	here, err := net.Dial("unix", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	there, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	var group, runs sync.WaitGroup
	group.Go(func() { h.serveMember(there) })
	group.Go(func() { p.followLink(t.Context(), &link{conn: here, out: gob.NewEncoder(here), opened: time.Now()}) })
	eventually(t, "it follows", linked(p))
	letGo := make(chan struct{})
	hold(t, p, &runs, letGo)
	h.mu.Lock()
	next := Stage{Takes: time.Second}
	if _, err := p.Do(t.Context(), next, func() error { return nil }); err != nil || p.link() != nil {
		t.Errorf("meanwhile: %v, with the link %v", err, p.link())
	}
	h.mu.Unlock()
	eventually(t, "it follows again", linked(p))
	var running atomic.Bool
	running.Store(true)
	runs.Go(func() {
		if _, err := p.Do(t.Context(), next, func() error { return nil }); err != nil || running.Load() {
			t.Errorf("beside the one that has the slot: %v", err)
		}
	})
	eventually(t, "the host has one that waits", func() bool { waiting, _ := p.Load(); return waiting == 1 })
	running.Store(false)
	close(letGo)
	runs.Wait()
	here.Close()
	group.Wait()
}

// TestWhoLeavesAHostsOrder: a context that ends withdraws what waits in the host's order.
func TestWhoLeavesAHostsOrder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	serveHost(t, path, 1)
	p, _ := follow(t, path)
	eventually(t, "it follows", linked(p))
	letGo := make(chan struct{})
	var group sync.WaitGroup
	hold(t, p, &group, letGo)
	ctx, cancel := context.WithCancel(t.Context())
	group.Go(func() {
		if _, err := p.Do(ctx, Stage{Takes: time.Second}, func() error { return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want that it left", err)
		}
	})
	eventually(t, "one waits", p.Wanting)
	cancel()
	eventually(t, "none waits", func() bool { return !p.Wanting() })
	close(letGo)
	group.Wait()
}

// TestStageGoesOnBehindItsLease: a stage whose slot another has by now asks for one again where it would yield.
func TestStageGoesOnBehindItsLease(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	serveHost(t, path, 1)
	p, _ := follow(t, path)
	q, _ := follow(t, path)
	eventually(t, "both follow", func() bool { return p.link() != nil && q.link() != nil })
	letGo := make(chan struct{})
	var group sync.WaitGroup
	ctx := WithSeat(t.Context())
	_, err := p.Do(ctx, Stage{Kind: "slow", Takes: 30 * time.Millisecond}, func() error {
		hold(t, q, &group, letGo) // when the lease is over
		group.Go(func() { _, _ = q.Do(t.Context(), Stage{Takes: 100 * time.Millisecond}, func() error { return nil }) })
		eventually(t, "another waits", p.Wanting)
		close(letGo)
		return Yield(ctx)
	})
	if err != nil {
		t.Error(err)
	}
	group.Wait()
	for _, pool := range []*Pool{p, q} {
		pool.mu.Lock()
		if len(pool.open) != 0 {
			t.Errorf("%d stages are open, want none", len(pool.open))
		}
		pool.mu.Unlock()
	}
}

func BenchmarkDoByHost(b *testing.B) {
	path := filepath.Join(b.TempDir(), "s")
	serveHost(b, path, 2)
	p, _ := follow(b, path)
	eventually(b, "it follows", linked(p))
	for b.Loop() {
		_, _ = p.Do(b.Context(), Stage{Kind: "k", Takes: time.Millisecond}, func() error { return nil })
	}
}

// TestHostKnowsWhatIsAsked: of a stage that yields two go in two slots however long they take, of one that does not one; and with whose share.
func TestHostKnowsWhatIsAsked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	serveHost(t, path, 2)
	p, _ := follow(t, path)
	eventually(t, "it follows", linked(p))
	for _, yields := range []bool{true, false} {
		letGo := make(chan struct{})
		var running atomic.Int32
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() {
				_, err := p.Do(WithSeat(t.Context()), Stage{Kind: "long", Tenant: "key", Takes: 10 * time.Second, Yields: yields}, func() error {
					running.Add(1)
					<-letGo
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		want := map[bool]int{true: 2, false: 1}[yields]
		eventually(t, "the host knows of both", func() bool { waiting, running := p.Load(); return waiting == 2-want && running == want })
		close(letGo)
		group.Wait()
		eventually(t, "nothing is left", func() bool { waiting, running := p.Load(); return waiting == 0 && running == 0 })
	}
}

// TestMessagesHaveAllThatIsAsked: what an Ask says reaches the host.
func TestMessagesHaveAllThatIsAsked(t *testing.T) {
	now := time.Now()
	ask := stages.Ask{
		ID: 7, Client: "member", Tenant: "key", Kind: "k", Takes: time.Second, Came: now.Add(-time.Second), Due: now.Add(time.Second), Rest: time.Minute,
		First: true, Yields: true, Spare: true, Apart: true, Outside: true,
	}
	for i := range reflect.TypeOf(ask).NumField() {
		if reflect.ValueOf(ask).Field(i).IsZero() {
			t.Errorf("the test has no %s", reflect.TypeOf(ask).Field(i).Name)
		}
	}
	r := requestOf(ask)
	got := r.event(now, "member", 7).(stages.Ask)
	for _, at := range []*time.Time{&got.Came, &got.Due, &ask.Came, &ask.Due} {
		*at = at.Round(time.Second)
	}
	if got != ask {
		t.Errorf("got %+v, want %+v", got, ask)
	}
}
