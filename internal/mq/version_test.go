package mq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// reports are what OnError hears.
type reports struct {
	mu   sync.Mutex
	list []error // guarded by mu
}

func (r *reports) add(_ string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, err)
}

func (r *reports) all() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]error(nil), r.list...)
}

// header makes the one frame of a message of a version, of a kind, with fields that ours has not.
func header(t *testing.T, version uint64, kind int) []byte {
	t.Helper()
	var b bytes.Buffer
	e := msgpack.NewEncoder(&b)
	if err := errors.Join(e.EncodeMapLen(3), e.EncodeMulti("v", version, "k", kind, "zz", "unheard of")); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// say sends raw frames through a peer's socket, and leaves what has come for hear.
func (p *Peer) say(t *testing.T, frames ...[]byte) {
	t.Helper()
	p.soc.mu.Lock()
	defer p.soc.mu.Unlock()
	if err := p.soc.sendFrames(frames...); err != nil {
		t.Fatal(err)
	}
}

// hear receives raw frames from a peer's socket.
func (p *Peer) hear(t *testing.T) [][]byte {
	t.Helper()
	for ctx := within(t); ctx.Err() == nil; time.Sleep(time.Millisecond) {
		p.soc.mu.Lock()
		frames, ok := p.soc.receiveMessage()
		p.soc.mu.Unlock()
		if ok {
			return frames
		}
	}
	t.Fatal("nothing came")
	return nil
}

// joined are a scheduler's end and a peer's, both of our release, with what they report.
func joined(t *testing.T) (l *Listener, p *Peer, atListener, atPeer *reports) {
	t.Helper()
	atListener, atPeer = &reports{}, &reports{}
	endpoint := "ipc://" + filepath.Join(t.TempDir(), "s.sock")
	l, err := Listen(endpoint, Options{Release: "1.5", OnError: atListener.add})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	p, err = Dial(endpoint, Options{Release: "1.4", OnError: atPeer.add})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	for ctx := within(t); ctx.Err() == nil && !p.up(); time.Sleep(time.Millisecond) {
	}
	return l, p, atListener, atPeer
}

func (p *Peer) up() bool {
	p.soc.mu.Lock()
	defer p.soc.mu.Unlock()
	for p.receiveOne() {
	}
	return p.connected
}

// serving receives at the listener until the test ends; nothing it hears may be good.
func serving(t *testing.T, l *Listener) {
	t.Helper()
	var group sync.WaitGroup
	group.Go(func() {
		if peer, m, err := l.Recv(context.Background()); err == nil {
			t.Errorf("the scheduler takes a %T of %q", m, peer)
		}
	})
	t.Cleanup(group.Wait)
	t.Cleanup(func() { l.Close() })
}

// TestOtherVersionIsRefused: a peer of an older or a newer version is told so in a message of its own version, once
// in a while, and reported once.
func TestOtherVersionIsRefused(t *testing.T) {
	for _, version := range []uint64{2, newer, 1 << 40} {
		l, p, refused, _ := joined(t)
		serving(t, l)
		for range 50 {
			p.say(t, header(t, version, 1), []byte("a frame that belongs to it"))
		}
		frames := p.hear(t)
		if len(frames) != 1 {
			t.Fatalf("version %d: refused in %d frames", version, len(frames))
		}
		fields := map[string]any{}
		if err := msgpack.Unmarshal(frames[0], &fields); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{"v": version, "k": uint64(wire.KindRefused), "version": uint64(wire.Version), "release": "1.5"}
		for key, value := range want {
			if got := fields[key]; fmt.Sprint(got) != fmt.Sprint(value) {
				t.Errorf("version %d: %s of the refusal is %v, want %v", version, key, got, value)
			}
		}
		p.soc.mu.Lock()
		again, ok := p.soc.receiveMessage()
		p.soc.mu.Unlock()
		if ok {
			t.Errorf("version %d: refused twice: %q", version, again)
		}
		list := refused.all()
		var other *wire.VersionError
		if len(list) != 1 || !errors.As(list[0], &other) || other.Got != version {
			t.Errorf("version %d: reported %q, want it once", version, list)
		}
	}
}

// newer is the version after ours.
const newer = wire.Version + 1

// refusal is what a scheduler of a newer version says to one of ours.
func refusal(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	e := msgpack.NewEncoder(&b)
	if err := errors.Join(e.EncodeMapLen(4), e.EncodeMulti("v", wire.Version, "k", int(wire.KindRefused), "version", newer, "release", "2.0")); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func wantBothSides(t *testing.T, err error) {
	t.Helper()
	var refused *RefusedError
	if !errors.As(err, &refused) {
		t.Fatalf("%v, want a RefusedError", err)
	}
	for _, want := range []string{fmt.Sprintf(`"2.0" and speaks version %d`, newer), fmt.Sprintf(`"1.4", which speaks version %d`, wire.Version), "the same release on both sides"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %s", err, want)
		}
	}
}

// TestRefusedPeerEnds: a newer scheduler that refuses ours ends Recv with both versions and releases.
func TestRefusedPeerEnds(t *testing.T) {
	l, p, _, _ := joined(t)
	_ = p.Send(hello("f"))
	mustServe(t, l, "f")
	if err := l.sendTo(l.peers.connectionOf("f"), [][]byte{refusal(t)}); err != nil {
		t.Fatal(err)
	}
	_, err := p.Recv(within(t))
	wantBothSides(t, err)
}

// TestForeignScheduler: a scheduler that greets a peer in another version is told so and reported once, and the
// peer serves on; what a peer refuses, the scheduler reports.
func TestForeignScheduler(t *testing.T) {
	l, p, atListener, atPeer := joined(t)
	_ = p.Send(hello("f"))
	mustServe(t, l, "f")
	for range 20 {
		if err := l.sendTo(l.peers.connectionOf("f"), [][]byte{header(t, 2, 2)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Send("f", &wire.Welcome{Epoch: 3}); err != nil {
		t.Fatal(err)
	}
	mustRecv(t, p)
	var other *wire.VersionError
	if list := atPeer.all(); len(list) != 1 || !errors.As(list[0], &other) || other.Got != 2 {
		t.Errorf("the peer reports %q, want version 2 once", list)
	}
	p.say(t, refusal(t))
	_ = p.Send(hello("f"))
	mustServe(t, l, "f")
	var refused *RefusedError
	for _, err := range atListener.all() {
		if errors.As(err, &refused) && refused.Version == newer && refused.Peer == "peer" {
			return
		}
	}
	t.Errorf("the scheduler reports %q, want the refusal", atListener.all())
}

// TestSilentScheduler: one that answers nothing, as a release before refusals does when it cannot read a Hello, is
// reported once a connection; one that answers is not.
func TestSilentScheduler(t *testing.T) {
	defer func(d time.Duration) { silenceBound = d }(silenceBound)
	silenceBound = 50 * time.Millisecond
	for _, answers := range []bool{false, true} {
		l, p, _, atPeer := joined(t)
		for range 20 {
			_ = p.Send(hello("f")) // without Recv, as a process that opens its models does
			mustServe(t, l, "f")
			if answers {
				if err := l.Send("f", &wire.Welcome{Epoch: 3}); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
		list := atPeer.all()
		if answers != (len(list) == 0) || len(list) > 1 {
			t.Errorf("answered: %v, the peer reports %q", answers, list)
		}
		if !answers && !strings.Contains(list[0].Error(), fmt.Sprintf(`has answered nothing for 50ms: it hangs, or is of another release; this is prefillonly "1.4", which speaks version %d`, wire.Version)) {
			t.Errorf("the report is %q", list[0])
		}
	}
}

// TestRefusalsAreBounded: whoever connects again and again takes no memory.
func TestRefusalsAreBounded(t *testing.T) {
	var r refusals
	now := time.Now()
	for i := range 3 * maxRefusals {
		if tell, first := r.nextRefusal(fmt.Sprint(i), now); !tell || !first || len(r) > maxRefusals {
			t.Fatalf("connection %d: told %v, for the first time %v, %d remembered", i, tell, first, len(r))
		}
	}
	if tell, first := r.nextRefusal(fmt.Sprint(3*maxRefusals-1), now.Add(refusalInterval)); !tell || first {
		t.Errorf("after a while: told %v, for the first time %v", tell, first)
	}
}
