package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// askModel asks a model for a token, and returns the status and the body.
func (p *program) askModel(model string) (int, string) {
	p.Helper()
	response, err := http.Post(p.base+"/v1/completions", "application/json", strings.NewReader(fmt.Sprintf(`{"model":%q,"prompt":"Hello","max_tokens":1,"temperature":0}`, model)))
	if err != nil {
		p.Fatal(err)
	}
	return response.StatusCode, readAll(p, response)
}

// until waits until what a condition says is so.
func (p *program) until(what string, holds func() bool) {
	p.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.Fatalf("not %s after 2 minutes", what)
		}
	}
}

// filed is a program whose file of parameters a test changes.
type filed struct {
	*program
	file string
}

// serveFile serves what a file says.
func serveFile(t *testing.T, text string, args ...string) filed {
	t.Helper()
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return filed{serve(t, nil, append([]string{"--config", file}, args...)...), file}
}

// reread changes the file and has it read, and waits until the log has a text once more.
func (c filed) reread(text, want string) {
	c.Helper()
	if err := os.WriteFile(c.file, []byte(text), 0o600); err != nil {
		c.Fatal(err)
	}
	before := strings.Count(c.logged(), want)
	if err := c.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		c.Fatal(err)
	}
	c.until("told: "+want, func() bool { return strings.Count(c.logged(), want) > before })
}

// TestRereadMistakes: a file that is wrong leaves all as it is and is told with its cause; what cannot change is told
// by its name; what can is applied.
func TestRereadMistakes(t *testing.T) {
	dir := demoDir(t)
	good := "models:\n- {name: a, path: " + dir + "}\n"
	c := serveFile(t, good, "--device", "null")
	for text, want := range map[string]string{
		"models:\n- {name: a, path: ":                                   "c.yaml: [2:",
		good + "prot: 5\n":                                              `c.yaml:3: unknown key \"prot\"`,
		"models:\n- {name: a, pth: x}\n":                                `unknown key \"pth\"`,
		"models:\n- {name: a, path: /no/where}\n":                       "/no/where",
		good + "- {name: a, path: " + dir + "}\n":                       `the name \"a\" is already that of models[0]`,
		good + "- {path: nobody/nothing}\n":                             "prefillonly model download nobody/nothing",
		"models:\n- {name: a, path: " + dir + ", devices: cuda:0}\n":    "executors are on null",
		"models:\n- {name: a, path: " + dir + ", task: clairvoyance}\n": "clairvoyance",
	} {
		c.reread(text, want)
		if status, answer := c.askModel("a"); status != 200 {
			t.Errorf("after %q: %d %s", text, status, answer)
		}
	}
	c.reread("models:\n- {name: [a, b], path: "+dir+"}\nfairness: 7\n", `"parameter":"fairness"`)
	if text := c.logged(); strings.Count(text, `"parameter":`) != 1 {
		t.Error("parameters are told of that did not change")
	}
	c.until("served as b", func() bool { status, _ := c.askModel("b"); return status == 200 })
	if n := strings.Count(c.logged(), "started again"); n != 0 {
		t.Errorf("%d processes were started again", n)
	}
}

// TestHangupOfTerminal: the end of the terminal is that of the server.
func TestHangupOfTerminal(t *testing.T) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals: %v", err)
	}
	defer master.Close()
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	terminal, err := os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	cmd := commandContext(ctx, nil, "serve", "--port", "0", "--device", "null")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	terminal.Close()
	var screen strings.Builder
	for buf := make([]byte, 4096); !strings.Contains(screen.String(), "ready"); {
		n, err := master.Read(buf)
		if err != nil {
			t.Fatalf("%v\n%s", err, screen.String())
		}
		screen.Write(buf[:n])
	}
	_ = cmd.Process.Signal(syscall.SIGHUP) // the terminal is there: nothing ends
	for buf := make([]byte, 4096); !strings.Contains(screen.String(), "models read anew"); {
		n, err := master.Read(buf)
		if err != nil {
			t.Fatalf("%v\n%s", err, screen.String())
		}
		screen.Write(buf[:n])
	}
	master.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("serve ended with %v, want a drain\n%s", err, screen.String())
	}
}
