package roles

import (
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/config"
)

// TestExecutorChildren: one executor for each GPU, with a name, a device and a debug port of its own.
func TestExecutorChildren(t *testing.T) {
	cfg := config.Default()
	cfg.Device, cfg.DebugPort = "cuda:0,3", 9000
	var names []string
	for _, c := range Group(&cfg, nil, zap.NewNop()).Executors {
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
		if got := [2]bool{isPermanentExit(code, true), isPermanentExit(code, false)}; got != want {
			t.Errorf("exit code %d: permanent at first and later %v, want %v", code, got, want)
		}
	}
}

// TestFinalCodes: no code after which a process is not started again is one that a runtime or a shell
// gives of its own.
func TestFinalCodes(t *testing.T) {
	const goRuntime, rustRuntime, signals = 2, 101, 128
	for code := range 256 {
		final := isPermanentExit(code, true) || isPermanentExit(code, false)
		if final && (code <= goRuntime || code == rustRuntime || code >= signals) {
			t.Errorf("exit code %d is final, and may come from a runtime", code)
		}
		if meant := code == cli.ExitUsage || code == cli.ExitConfig; meant && !isPermanentExit(code, false) {
			t.Errorf("exit code %d, which a process gives on purpose, is not final", code)
		}
	}
}

// TestHubSecretsStay: no process of a server but the one that downloads is given a token of the hub.
func TestHubSecretsStay(t *testing.T) {
	for name, value := range map[string]string{
		"HF_TOKEN": "hf_secret", "HUGGING_FACE_HUB_TOKEN": "hf_secret", "HF_TOKEN_PATH": "/hf_secret", "HF_ENDPOINT": "https://me:hf_secret@hub", "HF_HOME": "/home",
	} {
		t.Setenv(name, value)
	}
	cfg := config.Default()
	cfg.BatchDir = t.TempDir()
	g := Group(&cfg, nil, zap.NewNop())
	for _, c := range slices.Concat(g.Others, g.Optional, g.Frontends, g.Executors) {
		if env := strings.Join(c.Env, "\n"); strings.Contains(env, "hf_secret") || !strings.Contains(env, "HF_HOME=/home") {
			t.Errorf("%s is given %s", c.Name, env)
		}
	}
}
