package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"
)

// healthyFor is how long a frontend's word that it is healthy counts.
const healthyFor = 10 * time.Second

// Group is the processes of one server. It ends as a whole, and tells systemd how it is.
type Group struct {
	Log       *zap.Logger
	Frontends []*Child // say how the server is; stop first, since the others finish their requests
	Others    []*Child // those of which none can be missed
	Optional  []*Child // those that can be missed: the server goes on when one ends for good
	// Executors can do each other's work: one that ends for good, after it has been alive, is missed
	// only if it was the last.
	Executors []*Child
	Name      string // of the server, for systemd
	Ready     func() // called once, when all frontends are ready; may be nil
	// Reread is called on SIGHUP, unless the server stops: it reads the configuration anew, and says whether all
	// children but Others are to do so too. Nil ignores the signal.
	Reread   func() bool
	Stopping func() // called once, when the frontends are told to stop and no other will be started; may be nil

	ready chan struct{} // closed then

	mu      sync.Mutex
	behind  map[*Child]bool // guarded by mu; frontends that have not been ready yet
	healthy time.Time       // guarded by mu; when a frontend last was

	// owned by Run
	running                              int
	answering                            int // frontends that run
	executors                            map[*Child]bool
	stopping                             bool
	failure                              error
	stopFrontends, stopOthers, kill      context.Context
	cancelFrontends, cancelOthers, slain context.CancelFunc
}

// end is the end of a child for good.
type end struct {
	child *Child
	err   error
}

// Run keeps the children until a signal but SIGHUP, or a failure, ends them all. The first signal lets the frontends
// finish their requests, the second one ends all at once. It returns nil after a drain, and an *ExitError
// otherwise. It is called once.
func (g *Group) Run(signals <-chan os.Signal) error {
	g.prepareState()
	ends := make(chan end)
	start := func(stop context.Context, children []*Child) {
		for _, c := range children {
			g.running++
			go func() { ends <- end{c, c.Run(stop, g.kill)} }() // ended below, all of them
		}
	}
	start(g.stopOthers, g.Others)
	start(g.stopOthers, g.Executors)
	start(g.stopOthers, g.Optional)
	start(g.stopFrontends, g.Frontends)
	feed, stop := g.watchdogTicks()
	defer stop()
	ready := g.ready
	for g.running > 0 {
		select {
		case <-ready:
			ready = nil
			g.reportReady()
		case <-feed:
			g.feedWatchdog()
		case sig := <-signals:
			g.handleSignal(sig)
		case e := <-ends:
			g.handleEnded(e)
		}
	}
	return g.failure
}

func (g *Group) prepareState() {
	g.stopFrontends, g.cancelFrontends = context.WithCancel(context.Background())
	g.stopOthers, g.cancelOthers = context.WithCancel(context.Background())
	g.kill, g.slain = context.WithCancel(context.Background())
	g.answering, g.ready = len(g.Frontends), make(chan struct{})
	g.behind, g.executors = map[*Child]bool{}, map[*Child]bool{}
	for _, c := range g.Executors {
		g.executors[c] = true
	}
	for _, c := range g.Frontends {
		g.behind[c] = true
		c.Said = func(s Sign) { g.acceptSign(c, s) }
	}
}

// acceptSign takes in a frontend's sign of life.
func (g *Group) acceptSign(c *Child, s Sign) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s >= Healthy {
		g.healthy = time.Now()
	}
	if s >= Ready && g.behind[c] {
		if delete(g.behind, c); len(g.behind) == 0 {
			close(g.ready)
		}
	}
}

// reportReady says that the server is ready.
func (g *Group) reportReady() {
	if g.Ready != nil {
		g.Ready()
	}
	g.notifySystemd(daemon.SdNotifyReady + "\nSTATUS=serving " + g.Name)
}

// MoreTime tells systemd that the start goes on, and may take so much longer.
func MoreTime(by time.Duration) {
	_, _ = daemon.SdNotify(false, fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", by.Microseconds())) // who cannot hear it does not wait
}

func (g *Group) notifySystemd(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		g.Log.Warn("sd_notify", zap.Error(err))
	}
}

// watchdogTicks ticks whenever systemd wants to hear of the server; never without its watchdog.
func (g *Group) watchdogTicks() (feed <-chan time.Time, stop func()) {
	timeout, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		g.Log.Warn("watchdog", zap.Error(err))
	}
	if timeout <= 0 {
		return nil, func() {}
	}
	tick := time.NewTicker(timeout / 3)
	return tick.C, tick.Stop
}

// feedWatchdog tells systemd's watchdog that the server is well, if it is: no process is stuck beyond what killing
// it mends, and a frontend hears the scheduler. A server that is not ready yet, or stops, has time limits
// of its own.
func (g *Group) feedWatchdog() {
	if why := g.unhealthyReason(); why != "" {
		g.Log.Warn("unhealthy", zap.String("reason", why))
		return
	}
	g.notifySystemd(daemon.SdNotifyWatchdog)
}

func (g *Group) unhealthyReason() string {
	for _, children := range [][]*Child{g.Frontends, g.Others, g.Executors} {
		for _, c := range children {
			if c.stuck.Load() {
				return c.Name + " was killed for its silence, and does not end"
			}
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if silent := time.Since(g.healthy); !g.healthy.IsZero() && !g.stopping && silent > healthyFor {
		return fmt.Sprintf("no frontend has been healthy for %v", silent.Round(time.Second))
	}
	return ""
}

// handleSignal stops the server, or has it read its configuration anew.
func (g *Group) handleSignal(sig os.Signal) {
	if sig == syscall.SIGHUP {
		g.reloadChildren()
		return
	}
	if g.stopping {
		g.Log.Warn("stopping at once", zap.Stringer("signal", sig))
		g.failure = &ExitError{Name: "the server", Code: 128 + int(sig.(syscall.Signal)), How: fmt.Sprintf("stopped by a second %v", sig)}
		g.slain()
		return
	}
	g.Log.Info("draining", zap.Stringer("signal", sig))
	g.drainChildren()
}

func (g *Group) reloadChildren() {
	if g.stopping || g.Reread == nil || !g.Reread() {
		return
	}
	for _, c := range slices.Concat(g.Frontends, g.Executors, g.Optional) {
		c.Reload()
	}
}

func (g *Group) drainChildren() {
	if g.stopping {
		return
	}
	g.stopping = true
	g.notifySystemd(daemon.SdNotifyStopping)
	g.cancelFrontends()
	if g.Stopping != nil {
		g.Stopping()
	}
}

// handleEnded takes in the end of a child.
func (g *Group) handleEnded(e end) {
	g.running--
	if !g.stopping && g.isDispensable(e) {
		g.Log.Error(e.child.Name+" is given up, the others go on", zap.Error(e.err))
		return
	}
	if e.err != nil && g.failure == nil {
		g.failure = e.err
	}
	if e.err != nil && !g.stopping {
		g.slain() // no request can be answered any more
	}
	g.drainChildren()
	frontend := false
	for _, c := range g.Frontends {
		frontend = frontend || c == e.child
	}
	if frontend {
		g.answering--
	}
	if g.answering == 0 || e.err != nil && !frontend {
		g.cancelOthers()
	}
}

// isDispensable says that a child that ended for good can be missed, or is an executor that leaves others behind that can do its
// work. An executor that never came to life is a mistake of the configuration, which ends the server.
func (g *Group) isDispensable(e end) bool {
	if slices.Contains(g.Optional, e.child) {
		return true
	}
	if !g.executors[e.child] {
		return false
	}
	delete(g.executors, e.child)
	var exit *ExitError
	return errors.As(e.err, &exit) && !exit.First && len(g.executors) > 0
}
