package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func wantModels(t *testing.T, p *program) {
	t.Helper()
	if status, models := p.keyed("", "GET", "/v1/models", "", nil); status != 200 {
		t.Errorf("status %d: %v", status, models)
	}
}

// TestSharedDirectoryIsRefused: a second server, or process of one, on a directory or a socket that another has is refused with the
// directory and the other's process, and the first serves on; a killed server's are free.
func TestSharedDirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	run, batches, other := filepath.Join(dir, "run"), filepath.Join(dir, "batches"), filepath.Join(dir, "other")
	first := serve(t, nil, "--device", "null", "--runtime-dir", run, "--batch-dir", batches, "--scheduler-endpoint", "ipc://"+filepath.Join(dir, "s.sock"))
	for _, c := range []struct {
		args  []string
		where string
	}{
		{[]string{"serve", "--port", "0", "--runtime-dir", run}, "--runtime-dir: " + run},
		{[]string{"serve", "--port", "0", "--runtime-dir", other, "--batch-dir", batches}, "--batch-dir: " + batches},
		{[]string{"serve", "--port", "0", "--runtime-dir", other, "--scheduler-endpoint", "ipc://" + filepath.Join(dir, "s.sock")}, "--scheduler-endpoint: " + dir},
		{[]string{"scheduler", "--scheduler-endpoint", "ipc://" + filepath.Join(dir, "s.sock")}, "--scheduler-endpoint: " + dir},
		{[]string{"batches", "--runtime-dir", other, "--batch-dir", batches, "--scheduler-endpoint", "ipc://" + filepath.Join(dir, "s.sock")}, "--batch-dir: " + batches},
		{[]string{"batches", "--runtime-dir", run, "--batch-dir", other, "--scheduler-endpoint", "ipc://" + filepath.Join(dir, "s.sock")}, "--runtime-dir: " + run},
	} {
		out, err := command(nil, c.args...).CombinedOutput()
		if want := fmt.Sprintf("%s is in use by process %d", c.where, first.cmd.Process.Pid); err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%v: %v, does not say %q:\n%s", c.args, err, want, out)
		}
	}
	wantModels(t, first)
	_ = first.cmd.Process.Kill()
	<-first.done
	second := serve(t, nil, "--device", "null", "--runtime-dir", run, "--batch-dir", batches, "--scheduler-endpoint", "ipc://"+filepath.Join(dir, "s.sock"))
	wantModels(t, second)
}

// TestKilledServersDirectory: what a killed server leaves in the directory of temporary files is removed by the next one.
func TestKilledServersDirectory(t *testing.T) {
	temporary := t.TempDir()
	left := func() string {
		all, err := os.ReadDir(temporary)
		if err != nil || len(all) != 1 {
			t.Fatalf("there are %v, %v; want one directory", all, err)
		}
		return all[0].Name()
	}
	first := start(t, []string{"TMPDIR=" + temporary}, "--device", "null")
	before := left()
	_ = first.cmd.Process.Kill()
	<-first.done
	start(t, []string{"TMPDIR=" + temporary}, "--device", "null")
	if now := left(); now == before {
		t.Errorf("%s is still there", before)
	}
}
