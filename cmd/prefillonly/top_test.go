package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openTerminal makes a pseudo-terminal of 60 columns and 6 rows; all that is written on it comes in parts from the channel.
func openTerminal(t *testing.T) (slave *os.File, written <-chan []byte) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: 60, Row: 6}); err != nil {
		t.Fatal(err)
	}
	if slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	parts := make(chan []byte, 1024)
	go func() { // ends when the last that has the slave open ends
		defer close(parts)
		for buffer := make([]byte, 4096); ; {
			n, err := master.Read(buffer)
			if err != nil {
				master.Close()
				return
			}
			parts <- bytes.Clone(buffer[:n])
		}
	}()
	return slave, parts
}

// TestTopOnATerminal: figures come again and again over those before, cut to the screen, and a signal ends it.
func TestTopOnATerminal(t *testing.T) {
	server := serve(t, nil)
	slave, written := openTerminal(t)
	cmd := command([]string{"TERM=xterm"}, "top", server.base, "--interval", "100ms")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	var text string
	show := func(what string, times int) {
		t.Helper()
		for limit := time.After(time.Minute); strings.Count(text, what) < times; {
			select {
			case part, open := <-written:
				if text += string(part); !open {
					t.Fatalf("it ended without %q:\n%q", what, text)
				}
			case <-limit:
				t.Fatalf("no %q after a minute:\n%q", what, text)
			}
		}
	}
	show("requests/s", 3)
	screen := text[strings.LastIndex(text, "\x1b[H"):]
	if lines := strings.Split(screen, "\r\n"); len(lines) > 6 || strings.Contains(screen, "EXECUTOR") {
		t.Errorf("a screen of 6 rows shows %d lines:\n%q", len(lines), screen)
	}
	_ = server.cmd.Process.Kill()
	<-server.done
	show("nothing listens", 2)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	for range written { // until it has ended
	}
	_ = cmd.Wait()
}

// TestTopOnce: figures as plain text where there is no terminal, and errors that tell the next step.
func TestTopOnce(t *testing.T) {
	server := serve(t, []string{"PREFILLONLY_API_KEY=sk-secret"})
	hostile := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("\x1b]0;x\x07\x1b[2J\r\u009b31m\u202e fine\n"))
	}))
	defer hostile.Close()
	elsewhere := httptest.NewServer(http.RedirectHandler(hostile.URL, http.StatusFound))
	defer elsewhere.Close()
	once := func(env []string, args ...string) (string, error) {
		text, err := command(env, append([]string{"top", "--interval", "100ms"}, args...)...).CombinedOutput()
		return string(text), err
	}
	text, err := once([]string{"PREFILLONLY_API_KEY=sk-secret group,other"}, server.base)
	if err != nil || !strings.Contains(text, "requests/s") || !strings.Contains(text, "prefillonly-demo") || strings.Contains(text, "\x1b") {
		t.Errorf("%v\n%s", err, text)
	}
	if text, err := once(nil, hostile.URL, "--once"); err != nil || !strings.Contains(text, "fine") || strings.ContainsAny(text, "\x1b\x07\r\u009b\u202e") {
		t.Errorf("a server steers the terminal: %v, %q", err, text)
	}
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("sk-secret somebody\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := once(nil, server.base, "--api-key-file", key); err != nil {
		t.Errorf("with the key from a file: %v\n%s", err, text)
	}
	for _, c := range []struct {
		env  string
		args []string
		want string
	}{
		{"PREFILLONLY_API_KEY=", []string{server.base}, "--api-key-file"},
		{"PREFILLONLY_API_KEY=wrong", []string{server.base, "--once"}, "--api-key-file"},
		{"A=", []string{"http://127.0.0.1:1"}, "prefillonly serve"},
		{"A=", []string{elsewhere.URL}, "302"},
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
