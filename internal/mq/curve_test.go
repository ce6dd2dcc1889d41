package mq

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	zmq "github.com/pebbe/zmq4"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// ring is a directory with a key pair of each name, whose role is the name up to a dash.
type ring struct {
	*testing.T
	dir string
}

func newRing(t *testing.T, names ...string) ring {
	t.Helper()
	r := ring{t, t.TempDir()}
	for _, name := range names {
		role, _, _ := strings.Cut(name, "-")
		if err := NewKeys(wire.Role(role), r.file(name+".key"), r.file(name+".pub")); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func (r ring) file(name string) string { return filepath.Join(r.dir, name) }

// options are those of the owner of a key, who knows the others' public ones.
func (r ring) options(own string, others ...string) Options {
	r.Helper()
	var text []byte
	for _, name := range others {
		pub, err := os.ReadFile(r.file(name + ".pub"))
		if err != nil {
			r.Fatal(err)
		}
		text = append(text, pub...)
	}
	file := r.file("others of " + own)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		r.Fatal(err)
	}
	role, _, _ := strings.Cut(own, "-")
	c, err := LoadCurve(wire.Role(role), r.file(own+".key"), file)
	if err != nil {
		r.Fatal(err)
	}
	return Options{Curve: c}
}

// dial connects with a key to a listener of this ring.
func (r ring) dial(l *Listener, own string) *Peer {
	r.Helper()
	p, err := Dial(strings.Replace(l.Endpoint(), "0.0.0.0", "127.0.0.1", 1), r.options(own, "scheduler"))
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { p.Close() })
	return p
}

// say sends m once the connection is there.
func (r ring) say(p *Peer, m wire.Message) {
	r.Helper()
	for ctx := within(r.T); p.Send(m) != nil; time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			r.Fatal("no connection")
		}
	}
}

// TestCurve: an authorized key gets through, another one does not.
func TestCurve(t *testing.T) {
	r := newRing(t, "scheduler", "frontend-friend", "frontend-stranger")
	l, err := Listen("tcp://0.0.0.0:*", r.options("scheduler", "frontend-friend"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := r.dial(l, "frontend-stranger").Send(hello("stranger")); !errors.Is(err, ErrNoPeer) {
		t.Errorf("Send of a stranger = %v, want ErrNoPeer", err)
	}
	greet(t, r.dial(l, "frontend-friend"), "friend")
	mustServe(t, l, "friend")
	nothingComes(t, l)
}

// nothingComes holds a listener to silence.
func nothingComes(t *testing.T, l *Listener) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if peer, m, err := l.Recv(ctx); err == nil {
		t.Errorf("got %+v of %q through", m, peer)
	}
}

// TestKeyIsBoundToRole: an authorized key is of no use in another role, under another's name, or without a
// Hello.
func TestKeyIsBoundToRole(t *testing.T) {
	r := newRing(t, "scheduler", "frontend-a", "frontend-b", "executor-c")
	options := r.options("scheduler", "frontend-a", "frontend-b", "executor-c")
	var refused []string
	options.OnError = func(_ string, err error) { refused = append(refused, err.Error()) } // inside Recv
	l, err := Listen("tcp://127.0.0.1:*", options)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a := r.dial(l, "frontend-a")
	r.say(a, hello("web"))
	mustServe(t, l, "web")

	for _, attack := range []struct {
		key  string
		m    wire.Message
		want string
	}{
		{"frontend-b", &wire.Hello{Role: wire.RoleExecutor, Name: "gpu", Epoch: 1}, `"gpu" says Hello as one executor with the key of one frontend`},
		{"executor-c", hello("other"), `"other" says Hello as one frontend with the key of one executor`},
		{"frontend-b", hello("web"), `"web" is the name of a peer with another key`},
		{"executor-c", &wire.Hello{Role: wire.RoleExecutor, Name: "web", Epoch: 1}, `"web" is the name of a peer with another key`},
		{"executor-c", &wire.Done{Pass: 1}, "a *wire.Done before a Hello"},
	} {
		thief := r.dial(l, attack.key)
		r.say(thief, attack.m)
		for ctx := within(t); len(refused) == 0 && ctx.Err() == nil; {
			nothingComes(t, l) // which refuses what comes
		}
		if len(refused) != 1 || refused[0] != attack.want {
			t.Errorf("%s: refused %q, want %q", attack.key, refused, attack.want)
		}
		refused = nil
		thief.Close()
	}

	if err := l.Send("web", &wire.Welcome{Epoch: 7}); err != nil {
		t.Fatal(err)
	}
	if m := mustRecv(t, a); !reflect.DeepEqual(m, &wire.Welcome{Epoch: 7}) {
		t.Errorf("the name's owner gets %+v", m)
	}
	a.Close()
	again := r.dial(l, "frontend-a")
	r.say(again, hello("web"))
	mustServe(t, l, "web")
	c := r.dial(l, "executor-c")
	r.say(c, &wire.Hello{Role: wire.RoleExecutor, Name: "gpu", Epoch: 1})
	mustServe(t, l, "gpu")
}

// TestNamesOfAKeyAreBounded: a key cannot fill the scheduler's memory with names, and a name whose
// connection is gone stays with its key; without keys nothing is kept.
func TestNamesOfAKeyAreBounded(t *testing.T) {
	var d directory
	me, other := owner{"k1", wire.RoleFrontend}, owner{"k2", wire.RoleFrontend}
	for i := range maxNames {
		if err := d.registerPeer("c", me, hello(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.registerPeer("c", me, hello("one more")); err == nil || !strings.Contains(err.Error(), "4097") {
		t.Errorf("one name more: %v", err)
	}
	d.forgetConnection("c")
	if err := d.registerPeer("d", other, hello("3")); err == nil {
		t.Error("a name goes to another key when its owner is away")
	}
	if err := d.registerPeer("e", me, hello("3")); err != nil || d.connectionOf("3") != "e" || d.name("e") != "3" {
		t.Errorf("the owner comes back: %v", err)
	}
	var open directory
	for i := range 3 {
		if err := open.registerPeer("c", owner{}, hello(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	open.forgetConnection("c")
	if len(open.peers)+len(open.names)+len(open.taken) != 0 {
		t.Errorf("without keys there remain %+v", &open)
	}
}

func TestKeyFiles(t *testing.T) {
	r := newRing(t, "scheduler", "frontend", "executor", "scheduler-2")
	key := r.file("frontend.key")
	if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("secret file: %v, %v; want mode 0600", info.Mode(), err)
	}
	if err := NewKeys(wire.RoleFrontend, key, r.file("frontend.pub")); !errors.Is(err, os.ErrExist) {
		t.Errorf("NewKeys over existing files = %v, want ErrExist", err)
	}
	public := func(name string) string {
		text, err := os.ReadFile(r.file(name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, c := range []struct {
		role         wire.Role
		own          string
		others, want string
	}{
		{"frontend", "frontend.key", "scheduler short\n", "line 1"},
		{"frontend", "frontend.key", "public " + strings.Repeat("a", 40) + "\n", "want `scheduler KEY`"},
		{"frontend", "frontend.key", "# nothing\n\n", "no public key"},
		{"frontend", "frontend.key", public("executor.pub"), "not one that the frontend talks to"},
		{"frontend", "frontend.key", public("scheduler.pub") + public("scheduler-2.pub"), "2 keys of schedulers"},
		{"frontend", "frontend.key", public("scheduler.key"), "holds a secret key"},
		{"frontend", "executor.key", public("scheduler.pub"), "the key of one executor, this is the frontend: make another with `prefillonly keygen frontend NAME`"},
		{"frontend", "frontend.pub", public("scheduler.pub"), "one line `secret KEY`"},
		{"scheduler", "scheduler.key", public("frontend.pub") + strings.Replace(public("frontend.pub"), "frontend", "executor", 1), "a key has one role"},
		{"scheduler", "scheduler.key", public("scheduler-2.pub"), "not one that the scheduler talks to"},
	} {
		if err := os.WriteFile(r.file("others"), []byte(c.others), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadCurve(c.role, r.file(c.own), r.file("others")); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %s and %q: %v, want an error with %q", c.role, c.own, c.others, err, c.want)
		}
	}
	if !zmq.HasCurve() {
		t.Error("libzmq was built without CURVE")
	}
}
