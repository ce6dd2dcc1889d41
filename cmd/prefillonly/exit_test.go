package main

import (
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/device"
	"github.com/prefillonly/prefillonly/internal/cli"
)

// TestExitCodes: a wrong command line is 64, a wrong parameter 78, whichever command and path it takes.
func TestExitCodes(t *testing.T) {
	for line, want := range map[string]int{
		"nonsense":                              cli.ExitUsage,
		"config nonsense":                       cli.ExitUsage,
		"bench nonsense":                        cli.ExitUsage,
		"version a b":                           cli.ExitUsage,
		"serve /no/a /no/b":                     cli.ExitConfig,
		"profile a=/no/a b=/no/b":               cli.ExitUsage,
		"keygen":                                cli.ExitUsage,
		"keygen nobody k":                       cli.ExitUsage,
		"version --nonsense":                    cli.ExitUsage,
		"bench serve --num-prompts many":        cli.ExitUsage,
		"bench serve --request-rate fast":       cli.ExitUsage,
		"bench serve --workload /no/trace":      cli.ExitUsage,
		"bench serve --vocabulary 5":            cli.ExitUsage,
		"simulate":                              cli.ExitUsage,
		"simulate figure-9.9":                   cli.ExitUsage,
		"simulate table-5.2 --repeats 0":        cli.ExitUsage,
		"serve --tokenizer x":                   cli.ExitUsage,
		"config check --port many":              cli.ExitConfig,
		"config check --port 70000":             cli.ExitConfig,
		"config check --config /no/file.yaml":   cli.ExitConfig,
		"serve --api-key-file /no/keys":         cli.ExitConfig,
		"profile --model /no/model":             cli.ExitConfig,
		"executor --scheduler-endpoint nowhere": cli.ExitConfig,
		"healthcheck --port 1":                  cli.ExitFailure,
		"bench plot /no/sweep.csv":              cli.ExitFailure,
		"version":                               0,
		"config":                                0,
		"bench":                                 0,
	} {
		text, err := command(nil, strings.Fields(line)...).CombinedOutput()
		code := 0
		if exit, ok := err.(*exec.ExitError); ok {
			code = exit.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		if code != want {
			t.Errorf("%s: exit code %d, want %d\n%s", line, code, want, text)
		}
		if want == cli.ExitUsage && strings.Count(string(text), "\n") > 3 {
			t.Errorf("%s: a usage error is more than three lines:\n%s", line, text)
		}
	}
}

// TestDeviceExits: what keeps a device from being opened decides the exit code, also of an error that tells more.
func TestDeviceExits(t *testing.T) {
	for cause, want := range map[device.Cause]int{
		device.Configuration: cli.ExitConfig, device.Model: cli.ExitConfig, device.Device: cli.ExitDevice, device.Memory: cli.ExitMemory, device.Lost: cli.ExitLost,
		0: cli.ExitFailure,
	} {
		err := fmt.Errorf("executor: %w", &device.Error{Cause: cause, Err: io.EOF})
		if got := exitCode(err); got != want {
			t.Errorf("cause %d: exit code %d, want %d", cause, got, want)
		}
	}
	if got := exitCode(cli.Exit(cli.ExitLost, &device.Error{Cause: device.Memory, Err: io.EOF})); got != cli.ExitLost {
		t.Errorf("exit code %d of an error that has one, want %d", got, cli.ExitLost)
	}
}

// TestLoopback: which address a probe asks of a server that listens on all.
func TestLoopback(t *testing.T) {
	for host, want := range map[string]string{
		"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1", "127.0.0.2": "127.0.0.2", "example.org": "example.org",
	} {
		if got := loopbackAddress(host); got != want {
			t.Errorf("%q: %q, want %q", host, got, want)
		}
	}
}
