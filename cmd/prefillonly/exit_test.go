package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestExitCodes: a wrong command line is 64, a wrong parameter 78, whichever command and path it takes.
func TestExitCodes(t *testing.T) {
	for line, want := range map[string]int{
		"nonsense":                              exitUsage,
		"config nonsense":                       exitUsage,
		"bench nonsense":                        exitUsage,
		"serve a b":                             exitUsage,
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
