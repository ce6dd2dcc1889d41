package roles

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/modellist"
	"github.com/prefillonly/prefillonly/internal/supervise"
)

// grace is how long a process may take from SIGTERM to its end, drain aside.
const grace = 5 * time.Second

// What the supervisor hands down to a frontend: the descriptor of the listening socket, and how many
// frontends share it.
const (
	listenerEnv  = config.ChildEnvPrefix + "LISTENER"
	frontendsEnv = config.ChildEnvPrefix + "FRONTENDS"
)

// frontendName is the name of the i-th frontend that the supervisor starts.
func frontendName(i int) string { return "frontend-" + strconv.Itoa(i) }

// Group is the processes of a server; socket is where it listens.
func Group(cfg *config.Config, socket *os.File, log *zap.Logger) *supervise.Group {
	g := &supervise.Group{Log: log}
	g.Others = []*supervise.Child{{Name: "scheduler", Args: []string{"scheduler"}, Env: childEnv(cfg, config.Scheduler), Grace: grace}}
	if hasVideo(cfg) {
		g.Optional = append(g.Optional, videoChild(cfg))
	}
	if cfg.BatchDir != "" {
		g.Optional = append(g.Optional, batchesChild(cfg))
	}
	for i := range cfg.Frontends {
		g.Frontends = append(g.Frontends, frontendChild(cfg, socket, i))
	}
	for i, device := range cfg.Devices() {
		g.Executors = append(g.Executors, executorChild(cfg, device, i))
	}
	for _, c := range slices.Concat(g.Others, g.Optional, g.Frontends, g.Executors) {
		c.Log, c.Permanent, c.Silence, c.Slow = log, isPermanentExit, cfg.HangTimeout, isSlowExit
	}
	return g
}

// frontendChild is the i-th frontend.
func frontendChild(cfg *config.Config, socket *os.File, i int) *supervise.Child {
	own := *cfg
	if own.DebugPort > 0 && i > 0 {
		own.DebugPort += debugExecutor + len(cfg.Devices()) - 1 + i // behind those of the executors
	}
	name := frontendName(i)
	return &supervise.Child{
		Name: name, Args: []string{"frontend", "--name", name}, Files: []*os.File{socket}, Grace: cfg.DrainTimeout + grace,
		Env: append(childEnv(&own, config.Frontend), listenerEnv+"="+strconv.Itoa(supervise.FileFD(0)), frontendsEnv+"="+strconv.Itoa(cfg.Frontends)),
	}
}

// executorChild is the i-th executor.
func executorChild(cfg *config.Config, device string, i int) *supervise.Child {
	own := *cfg
	own.Device = device
	if own.DebugPort > 0 {
		own.DebugPort += i
	}
	kind, _, _ := strings.Cut(device, ":")
	name := kind + "-" + strconv.Itoa(i)
	args := []string{"executor", "--name", name}
	if len(cfg.Devices()) > 1 { // their bars would be drawn over each other
		args = append(args, "--loading-lines")
	}
	return &supervise.Child{Name: "executor " + name, Args: args, Env: childEnv(&own, config.Executor), Grace: grace, Computes: true}
}

// videoChild is the process that keeps streams of video. However often it crashes, it does not end the server.
func videoChild(cfg *config.Config) *supervise.Child {
	return &supervise.Child{
		Name: "video", Args: []string{"video", "serve", "--name", "video"}, Env: childEnv(cfg, config.Video), Grace: grace,
	}
}

// batchesChild is the process that keeps files and batches. However often it crashes, it does not end the server.
func batchesChild(cfg *config.Config) *supervise.Child {
	return &supervise.Child{
		Name: "batches", Args: []string{"batches", "--name", "batches"}, Env: childEnv(cfg, config.Lines|config.Batches), Grace: grace,
	}
}

// LinesChild is a subcommand that answers lines of batch files, and ends when it is done.
func LinesChild(cfg *config.Config, name string, args []string, log *zap.Logger) *supervise.Child {
	return &supervise.Child{
		Name: name, Args: append([]string{name}, args...), Env: childEnv(cfg, config.Lines), Grace: grace,
		Log: log, Silence: cfg.HangTimeout, Slow: isSlowExit,
		Permanent: func(code int, first bool) bool { return code == 0 || isPermanentExit(code, first) },
	}
}

// isPermanentExit tells exit codes that a restart would only repeat: those that a process gives on purpose, never
// that of a crash. A device or memory that was there for an earlier process may come back.
func isPermanentExit(code int, first bool) bool {
	return code == cli.ExitUsage || code == cli.ExitConfig || isSlowExit(code) && code != cli.ExitLost && first
}

// isSlowExit tells exit codes of processes that miss their device or its memory.
func isSlowExit(code int) bool {
	return code == cli.ExitLost || code == cli.ExitDevice || code == cli.ExitMemory
}

// isHubSecret says that a variable may hold a token of the Hugging Face hub, which the supervisor alone needs: it downloads for all.
func isHubSecret(pair string) bool {
	name, value, _ := strings.Cut(pair, "=")
	return name == "HF_TOKEN" || name == "HUGGING_FACE_HUB_TOKEN" || name == "HF_TOKEN_PATH" || name == "HF_ENDPOINT" && strings.Contains(value, "@")
}

// childEnv is this environment with the parameters of one role in place of all of them; those of models are in
// modellist.File, which may change. Whatever is secret goes to its role alone.
func childEnv(cfg *config.Config, role config.Role) []string {
	var env []string
	for _, pair := range os.Environ() {
		tracing := strings.HasPrefix(pair, "OTEL_") && role != config.Frontend // may hold the collector's key
		if !tracing && !isHubSecret(pair) && !strings.HasPrefix(pair, "PREFILLONLY_") && !strings.HasPrefix(pair, "NOTIFY_SOCKET=") {
			env = append(env, pair)
		}
	}
	env = append(env, claimedEnv+"=1")
	own := *cfg
	if role != config.Scheduler {
		own.SetModels(nil)
		env = append(env, config.ConfigEnv+"="+modellist.File(cfg))
	}
	return append(env, own.Environ(role)...)
}
