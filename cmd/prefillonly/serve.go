package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/supervise"
)

// grace is how long a process may take from SIGTERM to its end, drain aside.
const grace = 5 * time.Second

// newServeCommand makes `prefillonly serve`.
func newServeCommand() *cobra.Command {
	return configured(&cobra.Command{
		Use:   "serve [MODEL]",
		Short: "Serve a model over HTTP, with all processes on this host",
		Long: `Serves OpenAI's API on --port. Frontend, scheduler and executor run as child processes; one that dies
is started again and its work is run again. SIGTERM finishes open requests first, a second one stops at once.`,
		Example: `  prefillonly serve                                      the built-in demo model on port 8000
  prefillonly serve ./Qwen2.5-0.5B --port 9000           a Hugging Face checkpoint
  prefillonly serve --host 0.0.0.0 --api-key-file keys   open to other hosts, with keys
  prefillonly serve ./Llama-3.3-70B --device cuda:0,1 --tensor-parallel-size 2
                                                         one model over two GPUs
  prefillonly serve --config configs/serve.yaml          parameters from a file`,
		Args: cobra.MaximumNArgs(1),
	}, config.Serve, runServe)
}

func runServe(cfg *config.Config, log *zap.Logger) error {
	// Before anything else, so that no signal is missed.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)

	remove, err := prepareModel(cfg) // for all processes: a killed one cannot remove its own directory
	if err != nil {
		return err
	}
	defer remove()
	if _, err := apiKeys(cfg); err != nil {
		return &exitError{exitConfig, err}
	}
	if err := nameGPUs(cfg, true, log); err != nil {
		return err
	}
	if cfg.Endpoint == "" {
		cfg.Endpoint = "ipc://" + filepath.Join(cfg.RuntimeDir, "scheduler.sock")
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(cfg.Host, strconv.Itoa(cfg.Port)))
	if err != nil {
		return fmt.Errorf("%w; choose another --port", err)
	}
	defer listener.Close()
	cfg.Port = listener.Addr().(*net.TCPAddr).Port
	socket, err := listener.(*net.TCPListener).File() // of all frontends: whichever lives takes a waiting connection
	if err != nil {
		return err
	}
	defer socket.Close()
	log.Info("starting", zap.String("version", version), zap.String("model", cfg.ServedModelName[0]),
		zap.String("device", cfg.Device), zap.String("url", "http://"+listener.Addr().String()))

	s := newServer(cfg, socket, log)
	context.AfterFunc(s.stopFrontends, func() { // the frontend alone says how long connections are accepted
		listener.Close()
		socket.Close()
	})
	watch, stop := context.WithCancel(context.Background())
	defer stop()
	go s.report(watch, cfg) // ends with watch
	return s.run(signals)
}

// server is the set of child processes.
type server struct {
	log      *zap.Logger
	children []*supervise.Child

	frontends map[*supervise.Child]bool // those of children that are frontends
	executors map[*supervise.Child]bool // those of children that have not ended for good

	// The frontends stop first, since the others finish their requests.
	stopFrontends, stopOthers, kill       context.Context
	cancelFrontends, cancelOthers, killIt context.CancelFunc
}

func newServer(cfg *config.Config, socket *os.File, log *zap.Logger) *server {
	s := &server{log: log, frontends: map[*supervise.Child]bool{}, executors: map[*supervise.Child]bool{}}
	s.stopFrontends, s.cancelFrontends = context.WithCancel(context.Background())
	s.stopOthers, s.cancelOthers = context.WithCancel(context.Background())
	s.kill, s.killIt = context.WithCancel(context.Background())
	s.children = []*supervise.Child{{Name: "scheduler", Args: []string{"scheduler"}, Env: childEnv(cfg, config.Scheduler), Grace: grace}}
	for i := range cfg.Frontends {
		c := frontendChild(cfg, socket, i)
		s.children, s.frontends[c] = append(s.children, c), true
	}
	for i, device := range cfg.Devices() {
		c := executorChild(cfg, device, i)
		s.children, s.executors[c] = append(s.children, c), true
	}
	for _, c := range s.children {
		c.Log, c.Permanent, c.Slow = log, permanent, slow
	}
	return s
}

// frontendChild is the i-th frontend.
func frontendChild(cfg *config.Config, socket *os.File, i int) *supervise.Child {
	own := *cfg
	if own.DebugPort > 0 && i > 0 {
		own.DebugPort += debugExecutor + len(cfg.Devices()) - 1 + i // behind those of the executors
	}
	name := "frontend-" + strconv.Itoa(i)
	return &supervise.Child{
		Name: name, Args: []string{"frontend", "--name", name}, Files: []*os.File{socket}, Grace: cfg.DrainTimeout + grace,
		Env: append(childEnv(&own, config.Frontend), listenerEnv+"="+strconv.Itoa(supervise.FileFD(0))),
	}
}

// executorChild is the i-th executor.
func executorChild(cfg *config.Config, device string, i int) *supervise.Child {
	own := *cfg
	own.Device = device
	if own.DebugPort > 0 {
		own.DebugPort += i
	}
	kind, _, _ := strings.Cut(device, ":")
	name := kind + "-" + strconv.Itoa(i)
	args := []string{"executor", "--name", name}
	if len(cfg.Devices()) > 1 { // their bars would be drawn over each other
		args = append(args, "--loading-lines")
	}
	return &supervise.Child{Name: "executor " + name, Args: args, Env: childEnv(&own, config.Executor), Grace: grace}
}

// permanent tells exit codes that a restart would only repeat: those that a process gives on purpose, never
// that of a crash. A device or memory that was there for an earlier process may come back.
func permanent(code int, first bool) bool {
	return code == exitUsage || code == exitConfig || slow(code) && code != exitLost && first
}

// slow tells exit codes of processes that miss their device or its memory.
func slow(code int) bool { return code == exitLost || code == exitDevice || code == exitMemory }

// childEnv is this environment with the parameters of one role in place of all of them. Whatever is
// secret goes to its role alone.
func childEnv(cfg *config.Config, role config.Role) []string {
	var env []string
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "PREFILLONLY_") && !strings.HasPrefix(pair, "NOTIFY_SOCKET=") {
			env = append(env, pair)
		}
	}
	return append(env, cfg.Environ(role)...)
}

// run keeps the children until a signal or a failure ends them all. It returns nil after a drain.
func (s *server) run(signals <-chan os.Signal) error {
	type end struct {
		child *supervise.Child
		err   error
	}
	ends := make(chan end)
	for _, c := range s.children {
		stop := s.stopOthers
		if s.frontends[c] {
			stop = s.stopFrontends
		}
		go func() { ends <- end{c, c.Run(stop, s.kill)} }() // ended below, all of them
	}
	var failure error
	stopping, answering := false, len(s.frontends)
	for running := len(s.children); running > 0; {
		select {
		case sig := <-signals:
			if stopping {
				s.log.Warn("stopping at once", zap.Stringer("signal", sig))
				failure = &exitError{128 + int(sig.(syscall.Signal)), fmt.Errorf("stopped by a second %v", sig)}
				s.killIt()
			} else {
				s.log.Info("draining", zap.Stringer("signal", sig))
			}
			stopping = true
			s.cancelFrontends()
		case e := <-ends:
			running--
			if !stopping && s.dispensable(e.child, e.err) {
				s.log.Error("an executor is given up, the others go on", zap.Error(e.err))
				continue
			}
			if e.err != nil && failure == nil {
				failure = e.err
			}
			if e.err != nil && !stopping {
				s.killIt() // no request can be answered any more
			}
			s.cancelFrontends()
			if s.frontends[e.child] {
				answering--
			}
			if answering == 0 || e.err != nil && !s.frontends[e.child] {
				s.cancelOthers()
			}
		}
	}
	s.cancelOthers()
	return failure
}

// dispensable says that an executor that ended for good leaves others behind that can do its work. One
// that never came to life is a mistake of the configuration, which ends the server.
func (s *server) dispensable(c *supervise.Child, err error) bool {
	var exit *supervise.ExitError
	if s.executors[c] {
		delete(s.executors, c)
		return errors.As(err, &exit) && !exit.First && len(s.executors) > 0
	}
	return false
}

// How often the frontend is asked: until it is ready, and after that without a watchdog.
const (
	readyPoll = 100 * time.Millisecond
	idlePoll  = 10 * time.Second
)

// report tells systemd when the server is ready and that it is alive; the watchdog is fed only
// while the frontend says that the scheduler is there.
func (s *server) report(ctx context.Context, cfg *config.Config) {
	notify := func(state string) {
		if _, err := daemon.SdNotify(false, state); err != nil {
			s.log.Warn("sd_notify", zap.Error(err))
		}
	}
	watchdog, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		s.log.Warn("watchdog", zap.Error(err))
	}
	for every, ready := readyPoll, false; ; {
		if !ready && probe(cfg, "/ready") == nil {
			ready = true
			every = idlePoll
			if watchdog > 0 {
				every = min(every, watchdog/3)
			}
			s.log.Info("ready", zap.Int("port", cfg.Port))
			notify(daemon.SdNotifyReady + "\nSTATUS=serving " + cfg.ServedModelName[0])
		}
		if ready {
			if err := probe(cfg, "/health"); err == nil {
				notify(daemon.SdNotifyWatchdog)
			} else {
				s.log.Warn("unhealthy", zap.Error(err))
			}
		}
		select {
		case <-time.After(every):
		case <-s.stopFrontends.Done():
			notify(daemon.SdNotifyStopping)
			return
		case <-ctx.Done():
			return
		}
	}
}
