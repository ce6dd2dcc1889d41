package supervise

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// starts runs a child for a while, or until it is started a second time, and returns how often it was.
func starts(t *testing.T, behaviour string, change func(*Child), while time.Duration) int {
	t.Helper()
	stop, cancel := context.WithCancel(context.Background())
	kill, killIt := context.WithCancel(context.Background())
	var n atomic.Int32
	c := child(behaviour)
	c.Silence, c.Started = time.Second, func(int) { n.Add(1) }
	change(c)
	_, ended := start(t, c, stop, kill)
	for end := time.Now().Add(while); n.Load() < 2 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	killIt()
	<-ended
	return int(n.Load())
}

// TestSilence: a child that falls silent is killed and started again; one that speaks, or is at work on
// a long computation, is not.
func TestSilence(t *testing.T) {
	computes := func(c *Child) { c.Computes = true }
	for _, c := range []struct {
		name, behaviour string
		change          func(*Child)
		killed          bool
	}{
		{"silent", "silent", func(*Child) {}, true},
		{"silent, and may compute", "silent", computes, true},
		{"in a loop, and has nothing to compute", "busy", func(*Child) {}, true},
		{"computing", "busy", computes, false},
		{"reading, as while a model loads", "reading", computes, false},
		{"talking", "talking", func(*Child) {}, false},
		{"silent, and nobody minds", "silent", func(c *Child) { c.Silence = 0 }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			while := 3 * time.Second
			if c.killed {
				while = 30 * time.Second // a busy machine is an excuse, for a while
			}
			if n := starts(t, c.behaviour, c.change, while); (n > 1) != c.killed {
				t.Errorf("started %d times in %v, silent for 1 s at most; want it killed: %v", n, while, c.killed)
			}
		})
	}
}

// TestComputingForTooLong: a computation that gives no sign ends too.
func TestComputingForTooLong(t *testing.T) {
	n := starts(t, "busy", func(c *Child) { c.Silence, c.Computes = 150*time.Millisecond, true }, 30*time.Second)
	if n < 2 {
		t.Errorf("started %d times in 30 s, want a second one after 1.5 s", n)
	}
}

// TestStoppedChild: a process that is stopped is killed, though it cannot take any other signal.
func TestStoppedChild(t *testing.T) {
	stop, cancel := context.WithCancel(context.Background())
	var pid atomic.Int32
	c := child("talking")
	c.Silence, c.Computes, c.Started = time.Second, true, func(id int) { pid.Store(int32(id)) }
	began, ended := start(t, c, stop, context.Background())
	first := pid.Load()
	if err := os.Remove(began); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(int(first), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	waitFile(t, began)
	if pid.Load() == first {
		t.Error("the stopped process goes on")
	}
	cancel()
	<-ended
}

// TestPausedSupervisor: looks that find signs which came while nobody looked count them first.
func TestPausedSupervisor(t *testing.T) {
	v := &vigil{}
	for range 2 * looksPerSilence {
		v.heard.Add(1)
		v.countLook(false, time.Second, func() work { return work{} })
	}
	if v.quiet != 0 {
		t.Errorf("%d quiet looks at a child that spoke before each", v.quiet)
	}
}

// TestStarvedChild: a process that wants to work, and gets no processor, does not hang; one that waits for
// nothing does.
func TestStarvedChild(t *testing.T) {
	for name, c := range map[string]struct {
		each  work // between two looks
		hangs bool
	}{
		"starved":  {work{processor: time.Millisecond, waited: 900 * time.Millisecond}, false},
		"idle":     {work{processor: 5 * time.Millisecond, waited: 20 * time.Millisecond}, true},
		"spinning": {work{processor: time.Second}, true},
	} {
		v, done := &vigil{}, work{processor: time.Second}
		for range looksPerSilence + 1 {
			v.countLook(false, time.Second, func() work { return done })
			done.processor, done.waited = done.processor+c.each.processor, done.waited+c.each.waited
		}
		if hangs := v.idle >= looksPerSilence; hangs != c.hangs {
			t.Errorf("%s: taken for hung: %v, want %v", name, hangs, c.hangs)
		}
	}
	if w := workOf(os.Getpid()); w.processor <= 0 || w.read <= 0 {
		t.Errorf("this process has worked %+v", w)
	}
}

// group is a Group of children with these behaviours.
func group(t *testing.T, frontend string, executors ...string) *Group {
	member := func(behaviour string) *Child {
		c := child(behaviour)
		c.Args = []string{filepath.Join(t.TempDir(), "began")}
		return c
	}
	g := &Group{Log: child("").Log, Frontends: []*Child{member(frontend)}, Others: []*Child{member("polite")}}
	for _, behaviour := range executors {
		g.Executors = append(g.Executors, member(behaviour))
	}
	return g
}

// TestDispensable: the group goes on without an executor that has run before, as long as there is
// another; a mistake of the configuration ends it, and so does the last one's end.
func TestDispensable(t *testing.T) {
	for _, c := range []struct {
		name      string
		executors []string
		optional  string
		goesOn    bool
	}{
		{"one of two", []string{"fails later", "polite"}, "", true},
		{"the last", []string{"fails later"}, "", false},
		{"a mistake", []string{"exit 78", "polite"}, "", false},
		{"one that can be missed", []string{"polite"}, "fails later", true},
		{"a mistake in one that can be missed", []string{"polite"}, "exit 78", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := group(t, "polite", c.executors...)
			if c.optional != "" {
				g.Optional = group(t, c.optional).Frontends
			}
			signals := make(chan os.Signal, 1)
			ended := make(chan error, 1)
			go func() { ended <- g.Run(signals) }()
			select {
			case err := <-ended:
				if c.goesOn || err == nil {
					t.Errorf("the group ended with %v, want it to go on: %v", err, c.goesOn)
				}
				return
			case <-time.After(3 * time.Second):
			}
			signals <- syscall.SIGTERM
			if err := <-ended; !c.goesOn || err != nil {
				t.Errorf("the group went on and ended with %v, want it to go on: %v", err, c.goesOn)
			}
		})
	}
}

// TestReady: a group is ready when its frontends are.
func TestReady(t *testing.T) {
	g := group(t, "talking", "polite")
	ready, signals, ended := make(chan struct{}), make(chan os.Signal, 1), make(chan error, 1)
	g.Ready = func() { close(ready) }
	go func() { ended <- g.Run(signals) }()
	select {
	case <-ready:
	case <-time.After(10 * time.Second):
		t.Error("not ready after 10 s")
	}
	if why := g.unhealthyReason(); why != "" {
		t.Errorf("a ready group is ill: %s", why)
	}
	g.Executors[0].stuck.Store(true)
	if why := g.unhealthyReason(); !strings.Contains(why, "child") {
		t.Errorf("a group with a process that SIGKILL does not end is ill because of %q", why)
	}
	g.Executors[0].stuck.Store(false)
	signals <- syscall.SIGTERM
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
}
