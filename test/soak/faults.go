package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"time"
)

// signals by their names.
var signals = map[string]syscall.Signal{
	"KILL": syscall.SIGKILL, "SEGV": syscall.SIGSEGV, "STOP": syscall.SIGSTOP,
	"ABRT": syscall.SIGABRT, "BUS": syscall.SIGBUS, "FPE": syscall.SIGFPE, "QUIT": syscall.SIGQUIT,
}

// recovery is how long after a fault a successor and answers may take, and answersBetween how many of these
// come before the next one.
const (
	recovery       = 2 * time.Minute
	answersBetween = 16
)

// fault is a signal to a process.
type fault struct {
	signal, role string
	at           time.Time     // it was sent
	over         time.Time     // its successor was there
	quiet        time.Duration // until the next answer to any client
}

// sendFaults sends the faults, each after the server has answered again.
func sendFaults(ctx context.Context, c config, s *server, t *traffic, r *report, begun time.Time) error {
	random := rand.New(rand.NewPCG(c.seed, 0))
	kinds, roles := strings.Split(c.signals, ","), strings.Split(c.roles, ",")
	if c.duration > 0 {
		if err := sleep(ctx, c.duration/3); err != nil { // without faults, for the memory
			return err
		}
	}
	for i := 0; i < c.faults || c.faults == 0 && c.duration > 0; i++ {
		if left := time.Until(begun.Add(c.duration)); c.duration > 0 && left < c.every+c.silence {
			return nil
		}
		f := fault{signal: kinds[i%len(kinds)], role: roles[random.IntN(len(roles))]}
		if _, known := signals[f.signal]; !known {
			return fmt.Errorf("signal %q is unknown", f.signal)
		}
		if err := f.strikeProcess(ctx, s, t, random); err != nil {
			return fmt.Errorf("fault %d, SIG%s to a %s: %w", i+1, f.signal, f.role, err)
		}
		r.addFault(f)
		if err := sleep(ctx, time.Until(f.at.Add(c.every))); err != nil {
			return err
		}
	}
	return nil
}

// strikeProcess strikes a process of the role, and waits for its successor and for answers.
func (f *fault) strikeProcess(ctx context.Context, s *server, t *traffic, random *rand.Rand) error {
	var able []process
	for _, p := range s.runningProcesses() {
		if p.role == f.role {
			able = append(able, p)
		}
	}
	if len(able) == 0 {
		return fmt.Errorf("none runs")
	}
	victim := able[random.IntN(len(able))]
	f.at = time.Now()
	if err := syscall.Kill(victim.pid, signals[f.signal]); err != nil {
		return err
	}
	answered := t.answered.Load()
	is := func(p process) bool { return p.name == victim.name && p.pid != victim.pid }
	for f.over.IsZero() || t.answered.Load() < answered+answersBetween {
		if f.quiet == 0 && t.answered.Load() > answered {
			f.quiet = time.Since(f.at)
		}
		if f.over.IsZero() && slices.ContainsFunc(s.runningProcesses(), is) {
			f.over = time.Now()
			answered = t.answered.Load() // from then on
		}
		if time.Since(f.at) > recovery {
			return fmt.Errorf("no successor, or no answers, after %v", recovery)
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}
