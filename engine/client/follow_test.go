package client

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// TestRunGreets holds that Run says Hello at once and at every heartbeat, always as the same peer, takes what
// comes, does not wait for a heartbeat when the first executor is there, and ends when its connection is closed.
func TestRunGreets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pulses := 0
		c, s := newClient(Config{Pulse: func() { pulses++ }}, nil)
		ended := make(chan error, 1)
		go func() { ended <- c.Run(t.Context()) }()
		synctest.Wait()
		if n := len(s.Hellos()); n != 1 {
			t.Errorf("%d Hellos at once", n)
		}
		time.Sleep(5*time.Second + time.Millisecond)
		s.Inbox <- welcome(5)
		s.Inbox <- &wire.Lost{}
		synctest.Wait()
		hellos := s.Hellos()
		if len(hellos) != 7 { // one for a scheduler it has not met
			t.Errorf("%d Hellos in 5 heartbeats", len(hellos))
		}
		if pulses != 7 {
			t.Errorf("%d pulses: one at once, 5 heartbeats, and one for its first executor", pulses)
		}
		if before, last := hellos[5].Models, hellos[6].Models; before != 0 || last != 1 {
			t.Errorf("the last two Hellos know the models by %d and %d", before, last)
		}
		for _, h := range hellos {
			if h.Role != wire.RoleFrontend || h.Name != "front-1" || h.Epoch == 0 || h.Epoch != hellos[0].Epoch {
				t.Errorf("hello %+v", h)
			}
		}
		if state := c.State(); state.Epoch != 5 || c.connected {
			t.Errorf("state %+v, connected: %v", state, c.connected)
		}
		close(s.Inbox)
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "closed") {
			t.Errorf("Run returned %v", err)
		}
	})
}

// TestPulse holds that a client pulses at its heartbeats, and falls silent while its jobs or its connection are held for ever.
func TestPulse(t *testing.T) {
	pulses := make(chan struct{}, 1000)
	c, s := newClient(Config{Heartbeat: time.Millisecond, Pulse: func() { pulses <- struct{}{} }}, nil)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	for what, hold := range map[string]func() (release func()){
		"jobs":       func() func() { c.mu.Lock(); return c.mu.Unlock },
		"connection": s.Hold,
	} {
		<-pulses
		release := hold()
		time.Sleep(50 * time.Millisecond) // the pulse that was under way is over
		for len(pulses) > 0 {
			<-pulses
		}
		time.Sleep(50 * time.Millisecond)
		if n := len(pulses); n > 0 {
			t.Errorf("%d pulses while the %s were held", n, what)
		}
		release()
		<-pulses
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run returned %v", err)
	}
}
