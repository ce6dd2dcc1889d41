package mq

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// network is where connected ends are made.
type network struct{ endpoint string }

func (n network) listen(t *testing.T) *Listener {
	l, err := Listen(n.endpoint, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (n network) dial(t *testing.T) *Peer {
	p, err := Dial(n.endpoint, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// within bounds every wait of a test.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func mustRecv(t *testing.T, c *Peer) wire.Message {
	t.Helper()
	m, err := c.Recv(within(t))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func mustServe(t *testing.T, s *Listener, wantPeer string) wire.Message {
	t.Helper()
	peer, m, err := s.Recv(within(t))
	if err != nil || peer != wantPeer {
		t.Fatalf("Recv = %q, %v, %v; want a message of %q", peer, m, err, wantPeer)
	}
	return m
}

// greet says Hello once the connection is there, which Send and Recv notice.
func greet(t *testing.T, c *Peer, name string) {
	t.Helper()
	for ctx := within(t); c.Send(hello(name)) != nil; time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatal("no connection")
		}
	}
}

func hello(name string) *wire.Hello {
	return &wire.Hello{Role: wire.RoleFrontend, Name: name, Epoch: 1}
}

func TestConformance(t *testing.T) {
	for name, test := range map[string]func(*testing.T, network){
		"round trip":                 testRoundTrip,
		"hello before the scheduler": testEarlyHello,
		"restarted scheduler":        testRestart,
		"absent peer":                testAbsentPeer,
		"order under load":           testOrder,
		"ended context":              testEndedContext,
		"close":                      testClose,
		"same name again":            testTakeOver,
		"lists":                      testLists,
	} {
		t.Run(name, func(t *testing.T) { test(t, network{"ipc://" + filepath.Join(t.TempDir(), "run", "s.sock")}) })
	}
}

func testRoundTrip(t *testing.T, n network) {
	s, c := n.listen(t), n.dial(t)
	defer s.Close()
	defer c.Close()
	greet(t, c, "f")
	if m := mustServe(t, s, "f"); !reflect.DeepEqual(m, hello("f")) {
		t.Errorf("got %+v", m)
	}
	want := &wire.Submit{Job: engine.Job{ID: 7, Work: &engine.Tokens{IDs: make([]engine.TokenID, 100_000)}}}
	if err := c.Send(want); err != nil {
		t.Fatal(err)
	}
	if m := mustServe(t, s, "f"); !reflect.DeepEqual(m, want) {
		t.Error("a long Submit changed on its way")
	}
	if err := s.Send("f", &wire.Welcome{Epoch: 3}); err != nil {
		t.Fatal(err)
	}
	if m := mustRecv(t, c); !reflect.DeepEqual(m, &wire.Welcome{Epoch: 3}) {
		t.Errorf("got %+v", m)
	}
}

// testEarlyHello: a Hello said while the scheduler is away reaches it when it comes; other messages
// are refused.
func testEarlyHello(t *testing.T, n network) {
	c := n.dial(t)
	defer c.Close()
	if err := c.Send(&wire.Cancel{Job: 1}); !errors.Is(err, ErrNoPeer) {
		t.Errorf("Send without a scheduler = %v, want ErrNoPeer", err)
	}
	_ = c.Send(hello("f"))
	answer := receiving(t, c)
	s := n.listen(t)
	defer s.Close()
	if m := mustServe(t, s, "f"); !reflect.DeepEqual(m, hello("f")) {
		t.Errorf("got %+v", m)
	}
	if err := s.Send("f", &wire.Welcome{Epoch: 3}); err != nil {
		t.Fatal(err)
	}
	if m := <-answer; !reflect.DeepEqual(m, &wire.Welcome{Epoch: 3}) {
		t.Errorf("got %+v", m)
	}
}

// receiving is what a peer's next Recv returns, which begins now: the coming of a connection is noticed
// inside it.
func receiving(t *testing.T, c *Peer) <-chan wire.Message {
	next := make(chan wire.Message, 1)
	go func() {
		m, err := c.Recv(within(t))
		if err != nil {
			t.Error(err)
		}
		next <- m
	}()
	return next
}

func testRestart(t *testing.T, n network) {
	c := n.dial(t)
	defer c.Close()
	_ = c.Send(hello("f"))
	for range 3 {
		next := receiving(t, c)
		s := n.listen(t)
		if m := mustServe(t, s, "f"); !reflect.DeepEqual(m, hello("f")) {
			t.Errorf("the scheduler's first message is %+v, want Hello", m)
		}
		s.Close()
		if m := <-next; !reflect.DeepEqual(m, &wire.Lost{}) {
			t.Errorf("the peer's message after the break is %+v, want Lost", m)
		}
	}
}

func testAbsentPeer(t *testing.T, n network) {
	s := n.listen(t)
	defer s.Close()
	if err := s.Send("nobody", &wire.Welcome{}); !errors.Is(err, ErrNoPeer) {
		t.Errorf("Send to nobody = %v, want ErrNoPeer", err)
	}
}

// testOrder: many goroutines send through one peer while it is answered; nothing is lost, and each
// sender's messages stay in order.
func testOrder(t *testing.T, n network) {
	const senders, each = 8, 500
	s, c := n.listen(t), n.dial(t)
	defer s.Close()
	defer c.Close()
	greet(t, c, "f")
	mustServe(t, s, "f")
	var wg sync.WaitGroup
	for g := range senders {
		wg.Go(func() {
			for i := range each {
				if err := c.Send(&wire.Cancel{Job: engine.JobID(g<<32 | i)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Go(func() {
		next := map[engine.JobID]engine.JobID{}
		for range senders * each {
			m := mustRecv(t, c).(*wire.Result)
			if m.Job&(1<<32-1) != next[m.Job>>32] {
				t.Errorf("answer %v out of order", m.Job)
			}
			next[m.Job>>32]++
		}
	})
	for range senders * each {
		m := mustServe(t, s, "f").(*wire.Cancel)
		if err := s.Send("f", &wire.Result{Job: m.Job}); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
}

// testEndedContext: Recv under a context that has ended returns what has arrived, and never waits; one
// that ends later ends the wait.
func testEndedContext(t *testing.T, n network) {
	s, c := n.listen(t), n.dial(t)
	defer s.Close()
	defer c.Close()
	greet(t, c, "f")
	mustServe(t, s, "f")
	next := receiving(t, c)
	ended, end := context.WithCancel(context.Background())
	end()
	for i := range 3 {
		if err := s.Send("f", &wire.Welcome{Epoch: uint64(i)}); err != nil {
			t.Fatal(err)
		}
	}
	<-next
	for i := 1; i < 3; {
		m, err := c.Recv(ended)
		if errors.Is(err, context.Canceled) && within(t).Err() == nil {
			continue // on its way
		}
		if err != nil || m.(*wire.Welcome).Epoch != uint64(i) {
			t.Fatalf("Recv = %+v, %v; want the Welcome %d", m, err, i)
		}
		i++
	}
	for range 20 {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Millisecond)
		if _, _, err := s.Recv(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Listener.Recv = %v, want DeadlineExceeded", err)
		}
		if _, err := c.Recv(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Peer.Recv = %v, want DeadlineExceeded", err)
		}
		cancel()
	}
}

func testClose(t *testing.T, n network) {
	s, c := n.listen(t), n.dial(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, _, err := s.Recv(context.Background()); !errors.Is(err, ErrClosed) {
			t.Errorf("Recv = %v, want ErrClosed", err)
		}
	})
	wg.Go(func() {
		for {
			m, err := c.Recv(context.Background())
			if errors.Is(err, ErrClosed) {
				return
			}
			if _, ok := m.(*wire.Lost); !ok {
				t.Errorf("Recv = %v, %v; want ErrClosed", m, err)
			}
		}
	})
	s.Close()
	c.Close()
	wg.Wait()
	if err := c.Send(&wire.Cancel{}); !errors.Is(err, ErrClosed) {
		t.Errorf("Peer.Send = %v, want ErrClosed", err)
	}
	if err := s.Send("f", &wire.Cancel{}); !errors.Is(err, ErrClosed) {
		t.Errorf("Listener.Send = %v, want ErrClosed", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c = n.dial(t)
	defer c.Close()
	if _, err := c.Recv(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Recv = %v, want context.Canceled", err)
	}
}

// testTakeOver: a restarted peer gets what is sent to its name.
func testTakeOver(t *testing.T, n network) {
	s := n.listen(t)
	defer s.Close()
	for range 3 {
		c := n.dial(t)
		greet(t, c, "cpu-0")
		mustServe(t, s, "cpu-0")
		if err := s.Send("cpu-0", &wire.Welcome{Epoch: 1}); err != nil {
			t.Fatal(err)
		}
		mustRecv(t, c)
		c.Close()
	}
}

func TestSocketIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	l, err := Listen("ipc://"+dir+"/s.sock", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for path, want := range map[string]os.FileMode{dir: 0o700, dir + "/s.sock": 0o600} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode().Perm(), want)
		}
	}
}

// TestMalformedIsReported: a foreign version and garbage are named to OnError and passed over.
func TestMalformedIsReported(t *testing.T) {
	var refused []string
	l, err := Listen("tcp://127.0.0.1:*", Options{Unauthenticated: true, OnError: func(peer string, err error) { refused = append(refused, fmt.Sprint(peer, ": ", err)) }})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p, err := Dial(l.Endpoint(), Options{Unauthenticated: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	greet(t, p, "f")
	mustServe(t, l, "f")
	p.soc.mu.Lock()
	err = errors.Join(p.soc.sendFrames([]byte("garbage")), p.soc.sendFrames([]byte{0x82, 0xa1, 'v', wire.Version + 1, 0xa1, 'k', 1}), p.soc.sendFrames(wire.Encode(&wire.Cancel{Job: 1})...))
	p.soc.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	mustServe(t, l, "f")
	next := fmt.Sprint("version ", wire.Version+1)
	if len(refused) != 2 || !strings.Contains(refused[0], "malformed") || !strings.Contains(refused[1], next) {
		t.Errorf("refused %q, want a malformed message and %s", refused, next)
	}
}

func TestEndpointsAreChecked(t *testing.T) {
	for endpoint, want := range map[string]string{
		"tcp://0.0.0.0:7000":                "CURVE",
		"tcp://scheduler.internal:7000":     "CURVE",
		"tcp://127.0.0.1":                   "missing port",
		"tcp://127.0.0.1:7000":              "--allow-unauthenticated-tcp",
		"tcp://localhost:7000":              "read the prompts and forge answers",
		"tcp://[::1]:7000":                  "ipc:///path",
		"udp://x":                           "neither",
		"":                                  "neither",
		"ipc://":                            "neither",
		"ipc://" + strings.Repeat("x", 200): "200 bytes",
	} {
		if _, err := Listen(endpoint, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Listen(%q) = %v, want an error with %q", endpoint, err, want)
		}
		if _, err := Dial(endpoint, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Dial(%q) = %v, want an error with %q", endpoint, err, want)
		}
	}
	taken := t.TempDir() + "/file"
	if err := os.WriteFile(taken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen("ipc://"+taken+"/s.sock", Options{}); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("Listen below a file = %v, want ENOTDIR", err)
	}
}

// BenchmarkRoundTrip sends a Submit of 32 tokens and waits for its Result.
func BenchmarkRoundTrip(b *testing.B) {
	l, err := Listen("ipc://"+filepath.Join(b.TempDir(), "s.sock"), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	p, err := Dial(l.Endpoint(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			peer, m, err := l.Recv(context.Background())
			if err != nil {
				return
			}
			if s, ok := m.(*wire.Submit); ok {
				_ = l.Send(peer, &wire.Result{Job: s.ID})
			}
		}
	})
	_ = p.Send(hello("f"))
	for p.Send(&wire.Cancel{}) != nil {
		time.Sleep(time.Millisecond)
	}
	m := &wire.Submit{Job: engine.Job{ID: 1, Work: &engine.Tokens{IDs: make([]engine.TokenID, 32)}}}
	for b.Loop() {
		if err := p.Send(m); err != nil {
			b.Fatal(err)
		}
		if _, err := p.Recv(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
	l.Close()
	wg.Wait()
}
