package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/procfs"
)

// partial is what the name of an answer file ends with until it is whole.
const partial = ".partial"

// writeBatch writes a file of n completions.
func writeBatch(t *testing.T, n int) string {
	t.Helper()
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"custom_id\":\"r%d\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"The user %d likes\",\"max_tokens\":1}}\n", i, i)
	}
	path := filepath.Join(t.TempDir(), "in.jsonl")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// runBatch is a run-batch, which the test waits for or kills.
func runBatch(t *testing.T, in, out string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := command([]string{"TMPDIR=" + t.TempDir()}, append([]string{"run-batch", "-i", in, "-o", out, "--log-format", "json", "--kv-cache-memory-bytes", "16MiB"}, args...)...)
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // the test may have
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return cmd
}

// customIDs counts the answers of a file by custom_id; all are whole and fine, but the last while the run goes on.
func customIDs(t *testing.T, path string) map[string]int {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	seen := map[string]int{}
	lines := bufio.NewScanner(file)
	for lines.Buffer(nil, 1<<20); lines.Scan(); {
		var a struct {
			CustomID string `json:"custom_id"`
			Response struct {
				Status int `json:"status_code"`
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil || a.Response.Status != 200 {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		seen[a.CustomID]++
	}
	return seen
}

func onceEach(t *testing.T, path string, n int) {
	t.Helper()
	seen := customIDs(t, path)
	for i := range n {
		if got := seen[fmt.Sprintf("r%d", i)]; got != 1 {
			t.Fatalf("line %d has %d answers", i, got)
		}
	}
	if len(seen) != n {
		t.Fatalf("%d custom_ids are answered, of %d lines", len(seen), n)
	}
}

// TestRunBatchKilled: killed twice in the middle, and its worker once, a run answers every line once.
func TestRunBatchKilled(t *testing.T) {
	const n = 400
	in := writeBatch(t, n)
	out := filepath.Join(t.TempDir(), "out.jsonl")
	size := func() int64 {
		info, err := os.Stat(out + partial)
		if err != nil {
			return 0
		}
		return info.Size()
	}
	for kill := range 2 {
		before := size()
		cmd := runBatch(t, in, out, "--device", "null")
		for deadline := time.Now().Add(60 * time.Second); size() <= before; time.Sleep(time.Millisecond) {
			if _, err := os.Stat(out); err == nil {
				break // too fast to be struck
			}
			if time.Now().After(deadline) {
				t.Fatalf("run %d answers nothing", kill)
			}
		}
		if kill == 1 { // the worker alone first
			for _, child := range procfs.Children(cmd.Process.Pid) {
				if len(child.Args) > 1 && child.Args[1] == "run-batch" {
					_ = syscall.Kill(child.PID, syscall.SIGKILL)
				}
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	if _, err := os.Stat(out); err != nil {
		if err := runBatch(t, in, out, "--device", "null").Wait(); err != nil {
			t.Fatal(err)
		}
	}
	onceEach(t, out, n)
	if _, err := os.Stat(out + partial); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", out+partial, err)
	}
}

// TestRunBatchRefuses: files that cannot be run end the command with what is wrong, before anything is sent.
func TestRunBatchRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := writeBatch(t, 2)
	text, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	foreign := write("foreign", "a diary")
	write("foreign.out"+partial, "a diary\n")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"-i", good}, cli.ExitUsage, "-o FILE"},
		{[]string{"-i", dir + "/none", "-o", dir + "/o"}, cli.ExitConfig, "no such file"},
		{[]string{"-i", dir, "-o", dir + "/o"}, cli.ExitConfig, "regular"},
		{[]string{"-i", good, "-o", foreign}, cli.ExitConfig, "is there already"},
		{[]string{"-i", good, "-o", dir + "/foreign.out"}, cli.ExitConfig, "does not hold answers"},
		{[]string{"-i", good, "-o", dir + "/no/where"}, cli.ExitConfig, "no such file"},
		{[]string{"-i", write("json", string(text)+"{\n"), "-o", dir + "/o1"}, cli.ExitConfig, "line 3: "},
		{[]string{"-i", write("twice", string(text)+string(text)), "-o", dir + "/o2"}, cli.ExitConfig, "is also that of line 1"},
		{[]string{"-i", write("empty", ""), "-o", dir + "/o3"}, cli.ExitConfig, "the file has no lines"},
	} {
		said, err := command([]string{"TMPDIR=" + t.TempDir()}, append([]string{"run-batch", "--device", "null", "--log-format", "json"}, c.args...)...).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != c.code || !strings.Contains(string(said), c.want) {
			t.Errorf("%q: %v, want code %d and %q:\n%s", c.args, err, c.code, c.want, said)
		}
	}
}

// TestRunBatchJoins: the server that runs answers the file, and a stop leaves what was answered.
func TestRunBatchJoins(t *testing.T) {
	dir := t.TempDir()
	serve(t, nil, "--device", "null", "--runtime-dir", dir)
	in, out := writeBatch(t, 300), filepath.Join(t.TempDir(), "out.jsonl")
	endpoint := []string{"--scheduler-endpoint", "ipc://" + filepath.Join(dir, "scheduler.sock")}
	stopped := runBatch(t, in, out, endpoint...)
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(time.Millisecond) {
		if info, err := os.Stat(out + partial); err == nil && info.Size() > 0 {
			break
		}
		if _, err := os.Stat(out); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the run answers nothing")
		}
	}
	_ = stopped.Process.Signal(syscall.SIGTERM)
	_ = stopped.Wait()
	if _, err := os.Stat(out); err != nil {
		if err := runBatch(t, in, out, endpoint...).Wait(); err != nil {
			t.Fatal(err)
		}
	}
	onceEach(t, out, 300)
}
