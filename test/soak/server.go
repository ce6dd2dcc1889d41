package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prefillonly/prefillonly/internal/procfs"
)

// How long the server may take to be ready, and to end.
const (
	readyWithin = 2 * time.Minute
	endWithin   = time.Minute
)

// server is the program under test.
type server struct {
	cmd   *exec.Cmd
	url   string
	ended chan struct{}

	camera *atomic.Int64 // process that streams to it, or 0; nil: none ever does
	last   []string      // lines of its log; read after ended
}

// lastLines is how much of the server's log an error about its end tells.
const lastLines = 40

// startServer starts the program with these arguments beside the usual ones, and waits until it is ready.
func startServer(c config, args []string) (*server, error) {
	s := &server{ended: make(chan struct{})}
	s.cmd = exec.Command(c.binary, append([]string{"serve", "--port", "0", "--device", c.device, "--access-log=false", "--log-format", "json",
		"--api-server-count", strconv.Itoa(c.frontends), "--hang-timeout", c.silence.String(), "--kv-cache-memory-bytes", "64MiB"}, args...)...)
	log, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w; `make build` makes the program", err)
	}
	ready := make(chan struct{})
	go func() { // ends with the program
		defer close(s.ended)
		s.followLog(bufio.NewScanner(log), ready, c.verbose)
		_ = s.cmd.Wait()
	}()
	select {
	case <-ready:
		return s, nil
	case <-s.ended:
		return nil, fmt.Errorf("the server ended before it was ready: %v", s.cmd.ProcessState)
	case <-time.After(readyWithin):
		s.kill()
		return nil, fmt.Errorf("the server is not ready after %v", readyWithin)
	}
}

// followLog reads the log: where the server listens and when it is ready.
func (s *server) followLog(lines *bufio.Scanner, ready chan struct{}, show bool) {
	for lines.Scan() {
		if show {
			fmt.Fprintln(os.Stderr, lines.Text())
		}
		s.last = append(s.last[max(0, len(s.last)-lastLines+1):], lines.Text())
		var line struct{ Msg, URL, Logger string }
		if json.Unmarshal(lines.Bytes(), &line) != nil || line.Logger != "serve" {
			continue
		}
		switch line.Msg {
		case "starting":
			s.url = line.URL
		case "ready":
			close(ready)
		}
	}
}

// process is one of the server's.
type process struct {
	name string // e.g. frontend-1; the scheduler's is its role
	role string
	pid  int
}

// runningProcesses are those of the server that run, itself the first.
func (s *server) runningProcesses() []process {
	all := []process{{"serve", "serve", s.cmd.Process.Pid}}
	for _, child := range procfs.Children(s.cmd.Process.Pid) {
		if len(child.Args) < 2 {
			continue // it is about to become one of them
		}
		p := process{child.Args[1], child.Args[1], child.PID}
		if i := slices.Index(child.Args, "--name"); i > 0 && i+1 < len(child.Args) {
			p.name = child.Args[i+1]
		}
		all = append(all, p)
	}
	if s.camera != nil && s.camera.Load() != 0 {
		all = append(all, process{"camera", "camera", int(s.camera.Load())})
	}
	return all
}

// stop asks the server to end, which is a failure unless all of it ends well in time.
func (s *server) stop() error {
	children := procfs.Children(s.cmd.Process.Pid)
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(endWithin):
		return fmt.Errorf("the server has not ended %v after SIGTERM", endWithin)
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("the server ended with exit code %d; the end of its log:\n%s", code, strings.Join(s.last, "\n"))
	}
	for _, child := range children {
		if syscall.Kill(child.PID, 0) == nil {
			return fmt.Errorf("process %d (%s) has outlived the server", child.PID, strings.Join(child.Args, " "))
		}
	}
	return nil
}

// kill ends the server, if it runs.
func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	<-s.ended
}
