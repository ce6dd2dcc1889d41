package main

import (
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/device"
)

// TestExitCodes: a wrong command line is 64, a wrong parameter 78, whichever command and path it takes.
func TestExitCodes(t *testing.T) {
	for line, want := range map[string]int{
		"nonsense":                              exitUsage,
		"config nonsense":                       exitUsage,
		"bench nonsense":                        exitUsage,
		"version a b":                           exitUsage,
		"serve /no/a /no/b":                     exitConfig,
		"profile a=/no/a b=/no/b":               exitUsage,
		"keygen":                                exitUsage,
		"keygen nobody k":                       exitUsage,
		"version --nonsense":                    exitUsage,
		"bench serve --num-prompts many":        exitUsage,
		"bench serve --request-rate fast":       exitUsage,
		"bench serve --workload /no/trace":      exitUsage,
		"bench serve --vocabulary 5":            exitUsage,
		"simulate":                              exitUsage,
		"simulate figure-9.9":                   exitUsage,
		"simulate table-5.2 --repeats 0":        exitUsage,
		"serve --tokenizer x":                   exitUsage,
		"config check --port many":              exitConfig,
		"config check --port 70000":             exitConfig,
		"config check --config /no/file.yaml":   exitConfig,
		"serve --api-key-file /no/keys":         exitConfig,
		"profile --model /no/model":             exitConfig,
		"executor --scheduler-endpoint nowhere": exitConfig,
		"healthcheck --port 1":                  exitFailure,
		"bench plot /no/sweep.csv":              exitFailure,
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
		if want == exitUsage && strings.Count(string(text), "\n") > 3 {
			t.Errorf("%s: a usage error is more than three lines:\n%s", line, text)
		}
	}
}

// TestDeviceExits: what keeps a device from being opened decides the exit code, also of an error that tells more.
func TestDeviceExits(t *testing.T) {
	for cause, want := range map[device.Cause]int{
		device.Configuration: exitConfig, device.Model: exitConfig, device.Device: exitDevice, device.Memory: exitMemory, device.Lost: exitLost,
		0: exitFailure,
	} {
		err := fmt.Errorf("executor: %w", &device.Error{Cause: cause, Err: io.EOF})
		if got := exitCode(err); got != want {
			t.Errorf("cause %d: exit code %d, want %d", cause, got, want)
		}
	}
	if got := exitCode(&exitError{exitLost, &device.Error{Cause: device.Memory, Err: io.EOF}}); got != exitLost {
		t.Errorf("exit code %d of an error that has one, want %d", got, exitLost)
	}
}
