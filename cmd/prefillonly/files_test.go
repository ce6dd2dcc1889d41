package main

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestFewFiles: a server that may open few files says at its start how many it has, how many it needs, and what that leaves.
func TestFewFiles(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[string]string{"64": `"files":64,"needed":264,"connections":1}`, "264": ""} {
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		// The port is taken by nobody: the address is another host's, so that serve ends after what it says first.
		cmd := exec.CommandContext(ctx, "sh", "-c", "ulimit -n "+limit+` && exec "$0" serve --log-format json --host 192.0.2.1 --port 0 --device null --max-connections 200`, program)
		cmd.Env = append(os.Environ(), beProgram+"=1", "TMPDIR="+t.TempDir())
		out, err := cmd.CombinedOutput()
		stop()
		if err == nil || want == "" == strings.Contains(string(out), "ulimit -n") || !strings.Contains(string(out), want) {
			t.Errorf("with %s files: %v, want %q:\n%s", limit, err, want, out)
		}
	}
}
