package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pty is a pseudo-terminal with a program on it.
type pty struct {
	testing.TB
	master, slave *os.File
	done          chan struct{}
	exit          *os.ProcessState // once done is closed
	pid           int

	mu   sync.Mutex
	text strings.Builder // what the program has written; guarded by mu
}

// openPTY makes a pseudo-terminal of 80 columns and 24 rows.
func openPTY(t testing.TB) *pty {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	p := &pty{TB: t, master: master, done: make(chan struct{})}
	var number int
	p.control(func(fd int) error {
		if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
			return err
		}
		number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		return err
	})
	p.resize(80, 24)
	if p.slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.slave.Close(); p.master.Close() })
	return p
}

func (p *pty) control(call func(fd int) error) {
	p.Helper()
	raw, err := p.master.SyscallConn()
	if err != nil {
		p.Fatal(err)
	}
	if failed := raw.Control(func(fd uintptr) { err = call(int(fd)) }); failed != nil || err != nil {
		p.Fatal(failed, err)
	}
}

func (p *pty) resize(columns, rows uint16) {
	p.Helper()
	p.control(func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows})
	})
}

// mode is the terminal's.
func (p *pty) mode() (mode unix.Termios) {
	p.Helper()
	p.control(func(fd int) error {
		m, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		mode = *m
		return err
	})
	return mode
}

// run starts the program on the terminal, which becomes the one that controls it.
func (p *pty) run(env []string, args ...string) {
	p.Helper()
	cmd := command(append([]string{"TERM=xterm", "NO_COLOR=1"}, env...), args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.slave, p.slave, p.slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		p.Fatal(err)
	}
	p.pid = cmd.Process.Pid
	read := make(chan struct{})
	go func() { // ends when the master is closed
		defer close(read)
		for buffer := make([]byte, 4096); ; {
			n, err := p.master.Read(buffer)
			if err != nil {
				return
			}
			p.mu.Lock()
			p.text.Write(buffer[:n])
			p.mu.Unlock()
		}
	}()
	go func() { // ends with the program
		_ = cmd.Wait()
		p.exit = cmd.ProcessState
		close(p.done)
	}()
	p.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.done
		p.master.Close()
		<-read
		if p.Failed() {
			p.Logf("on the terminal: %q", p.screen())
		}
	})
}

func (p *pty) screen() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// forget is called before what is to come is waited for.
func (p *pty) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text.Reset()
}

func (p *pty) until(what string, true func() bool) {
	p.Helper()
	for limit := time.Now().Add(60 * time.Second); !true(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			p.Fatalf("%s: not after 60 s", what)
		}
	}
}

func (p *pty) shows(text string) {
	p.Helper()
	p.until("the terminal shows "+text, func() bool { return strings.Contains(p.screen(), text) })
}

// ends waits for the program's end by itself.
func (p *pty) ends(code int) {
	p.Helper()
	select {
	case <-p.done:
	case <-time.After(60 * time.Second):
		p.Fatal("it has not ended after 60 s")
	}
	if p.exit.ExitCode() != code {
		p.Errorf("it ended with %v, want exit code %d", p.exit, code)
	}
}

func (p *pty) signal(sig syscall.Signal) {
	p.Helper()
	if err := syscall.Kill(p.pid, sig); err != nil {
		p.Fatal(err)
	}
}

func (p *pty) stopped() bool {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	return strings.Contains(string(stat), ") T ")
}

const leftScreen = "\x1b[?25h\x1b[?1049l"

// TestTopOnATerminal: against a real server that asks for a key, through a pseudo-terminal. It is stopped and goes on, its terminal
// is resized, and every way to end it leaves the terminal as it was.
func TestTopOnATerminal(t *testing.T) {
	server := serve(t, []string{"PREFILLONLY_API_KEY=sk-secret"})
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("sk-secret somebody\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"top", server.base, "--api-key-file", key, "--interval", "100ms"}
	start := func(t *testing.T) (*pty, unix.Termios) {
		p := openPTY(t)
		before := p.mode()
		p.run(nil, args...)
		p.shows("healthy")
		if p.mode().Lflag&(unix.ICANON|unix.ECHO) != 0 {
			t.Error("keys are echoed, or told only at the end of a line")
		}
		return p, before
	}
	restored := func(p *pty, before unix.Termios) {
		p.Helper()
		p.shows(leftScreen)
		if p.mode() != before {
			p.Errorf("the terminal's mode is %+v, was %+v", p.mode(), before)
		}
	}
	t.Run("keys, sizes, stops", func(t *testing.T) {
		p, before := start(t)
		p.shows("prefillonly-demo")
		p.forget()
		p.resize(200, 50)
		p.shows("FRAMES/S")
		p.signal(syscall.SIGTSTP)
		p.until("it is stopped", p.stopped)
		restored(p, before)
		p.forget()
		p.signal(syscall.SIGCONT)
		p.shows("\x1b[?1049h")
		p.shows("healthy")
		p.forget()
		if _, err := p.master.WriteString("q"); err != nil {
			t.Fatal(err)
		}
		p.ends(0)
		restored(p, before)
	})
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			p, before := start(t)
			p.signal(sig)
			p.ends(0)
			restored(p, before)
		})
	}
	t.Run("stopped output", func(t *testing.T) { // Ctrl-S
		p, _ := start(t)
		if _, err := p.master.Write([]byte{'S' & 31}); err != nil {
			t.Fatal(err)
		}
		p.signal(syscall.SIGTERM)
		p.ends(0)
	})
	t.Run("hangup", func(t *testing.T) {
		p, _ := start(t)
		p.master.Close()
		p.ends(0)
	})
	t.Run("no server", func(t *testing.T) {
		p := openPTY(t)
		p.run(nil, "top", "http://127.0.0.1:1", "--interval", "100ms")
		p.shows("prefillonly serve")
		p.signal(syscall.SIGTERM)
		p.ends(0)
	})
	t.Run("a server that goes and comes", func(t *testing.T) {
		p, _ := start(t)
		_ = server.cmd.Process.Kill()
		<-server.done
		p.shows("nothing listens")
	})
}

// TestTopOnce: a snapshot as plain text where there is no terminal, and errors that tell the next step.
func TestTopOnce(t *testing.T) {
	server := serve(t, []string{"PREFILLONLY_API_KEY=sk-secret"})
	once := func(env []string, args ...string) (string, error) {
		text, err := command(env, append([]string{"top"}, args...)...).CombinedOutput()
		return string(text), err
	}
	text, err := once([]string{"PREFILLONLY_API_KEY=sk-secret group,other"}, server.base)
	if err != nil || !strings.Contains(text, "healthy") || !strings.Contains(text, "prefillonly-demo") || strings.Contains(text, "\x1b") {
		t.Errorf("%v\n%s", err, text)
	}
	for _, c := range []struct {
		env  string
		args []string
		want string
	}{
		{"PREFILLONLY_API_KEY=", []string{server.base}, "--api-key-file"},
		{"PREFILLONLY_API_KEY=wrong", []string{server.base, "--once"}, "--api-key-file"},
		{"A=", []string{"http://127.0.0.1:1"}, "prefillonly serve"},
		{"A=", []string{"localhost:8000"}, "http://HOST:PORT"},
		{"A=", []string{"http://user:key@localhost"}, "--api-key-file"},
		{"A=", []string{"--interval", "1ms"}, "--interval"},
		{"A=", []string{"--api-key-file", "/no/file"}, "/no/file"},
	} {
		if text, err := once([]string{c.env}, c.args...); err == nil || !strings.Contains(text, c.want) || strings.Contains(text, "sk-secret") {
			t.Errorf("%v: %v, does not say %s:\n%s", c.args, err, c.want, text)
		}
	}
}
