package main

import (
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/internal/cli"
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
