package main

import (
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/kernels/cuda/driver"
)

// TestNoDevice: without a usable GPU serve ends with the exit code that systemd does not restart
// after, and says what to do.
func TestNoDevice(t *testing.T) {
	if device, err := driver.Open(0, driver.Options{}); err == nil {
		device.Close()
		t.Skip("this machine has a GPU")
	}
	serve := command(nil, "serve", "--device", "cuda:0,1", "--port", "0")
	out, _ := serve.CombinedOutput()
	if code := serve.ProcessState.ExitCode(); code != cli.ExitDevice {
		t.Errorf("exit code %d, want %d", code, cli.ExitDevice)
	}
	for _, want := range []string{noDevice, "--device cpu"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the log lacks %q:\n%s", want, out)
		}
	}
}

// TestExecutorChildren: one executor for each GPU, with a name, a device and a debug port of its own.
func TestExecutorChildren(t *testing.T) {
	cfg := config.Default()
	cfg.Device, cfg.DebugPort = "cuda:0,3", 9000
	var names []string
	for _, c := range newGroup(&cfg, nil, zap.NewNop()).Executors {
		names = append(names, c.Name)
		last := c.Name == "executor cuda-1"
		for pair, want := range map[string]bool{"PREFILLONLY_DEVICE=cuda:3": last, "PREFILLONLY_DEBUG_PORT=9001": last, "PREFILLONLY_DEVICE=cuda:0": !last} {
			if slices.Contains(c.Env, pair) != want {
				t.Errorf("%s in the environment of %s: %v, want %v", pair, c.Name, !want, want)
			}
		}
	}
	if want := []string{"executor cuda-0", "executor cuda-1"}; !slices.Equal(names, want) {
		t.Errorf("children %q, want %q", names, want)
	}
}

// TestPermanent: what a restart cannot help, at first and later.
func TestPermanent(t *testing.T) {
	for code, want := range map[int][2]bool{
		cli.ExitFailure: {false, false}, cli.ExitUsage: {true, true}, cli.ExitConfig: {true, true},
		cli.ExitDevice: {true, false}, cli.ExitMemory: {true, false}, cli.ExitLost: {false, false},
	} {
		if got := [2]bool{permanent(code, true), permanent(code, false)}; got != want {
			t.Errorf("exit code %d: permanent at first and later %v, want %v", code, got, want)
		}
	}
}
