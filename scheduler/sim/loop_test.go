package sim

import (
	"fmt"
	"testing"
	"time"
)

// TestTasksShareTheSlots: tasks beyond the slots slow all of them down, a task that stands still takes nothing, and what
// is left of it is done later.
func TestTasksShareTheSlots(t *testing.T) {
	l := &loop{}
	p := &processor{loop: l, slots: 2}
	var ended []string
	begin := func(name string, at, work time.Duration) *task {
		k := &task{left: work}
		k.done = func() error { ended = append(ended, fmt.Sprint(name, " ", l.now)); return nil }
		l.after(at, func() error { p.startTask(k); return nil })
		return k
	}
	begin("a", 0, 4*time.Second)
	b := begin("b", 0, 4*time.Second)
	begin("c", time.Second, 4*time.Second) // three on two slots: 2/3 each
	l.after(4*time.Second, func() error { p.stopTask(b); return nil })
	l.after(10*time.Second, func() error { p.startTask(b); return nil })
	for {
		if _, ok := l.nextEvent(); !ok {
			break
		}
		if err := l.fireEvent(); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := fmt.Sprint(ended), "[a 5s c 6s b 11s]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if p.busy != 7*time.Second {
		t.Errorf("busy for %v, want 7s", p.busy)
	}
}
