package roles

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/cmd/prefillonly/settings"
	"github.com/prefillonly/prefillonly/engine/apikey"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/frontend"
	"github.com/prefillonly/prefillonly/engine/speech"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/httpserve"
	"github.com/prefillonly/prefillonly/internal/supervise"
	"github.com/prefillonly/prefillonly/internal/telemetry"
	"github.com/prefillonly/prefillonly/internal/tracing"
	"github.com/prefillonly/prefillonly/internal/version"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
)

// NewFrontend makes `prefillonly frontend`.
func NewFrontend() *cobra.Command {
	command := &cobra.Command{
		Use:     "frontend [MODEL...]",
		Short:   "Run an HTTP frontend alone",
		Example: "  prefillonly frontend --name web-1 --scheduler-endpoint tcp://10.0.0.1:7000 --curve-key-file f.key --curve-peers-file s.pub --model ./Qwen2.5-0.5B",
	}
	name := command.Flags().String("name", DefaultName("frontend"), "name among the peers of one scheduler, stable over restarts")
	return settings.Reconfigured(command, config.Frontend, func(s settings.Settings, log *zap.Logger) error {
		return runFrontend(s, *name, log)
	})
}

func runFrontend(s settings.Settings, name string, log *zap.Logger) error {
	cfg := s.Config
	ctx, stop := context.WithCancel(stopSignal(context.Background()))
	defer stop()
	debugging, err := telemetry.ServeDebug(cfg.DebugPort, debugFrontend, log)
	if err != nil {
		return err
	}
	defer debugging.Close()
	_, remove, err := Prepare(ctx, cfg, true, log)
	if err != nil {
		return err
	}
	defer remove()
	keys, err := apiKeys(cfg)
	if err != nil {
		return cli.Exit(cli.ExitConfig, err)
	}
	models := servedModels(cfg)
	if err := openOnly(models); err != nil {
		return cli.Exit(cli.ExitConfig, err)
	}
	listener, err := openListener(cfg)
	if err != nil {
		return err
	}
	peer, err := dialScheduler(cfg, wire.RoleFrontend, log)
	if err != nil {
		return err
	}
	defer peer.Close()
	defer followProcessors(cfg)()
	tracer, endTracing, err := startTracing(cfg, name, log)
	if err != nil {
		return err
	}
	defer endTracing()
	tensors := NewBlobs(cfg, 0)
	defer tensors.Close()
	var f *frontend.Frontend
	pool := client.New(client.Config{
		Name: name, MaxJobs: cfg.MaxOpenJobs, Heartbeat: heartbeat, Pulse: func() { sendPulse(f.State()) }, Inputs: tensors, Outputs: tensors,
	}, peer, log)
	if f, err = frontend.New(frontendConfig(cfg, keys, tracer, name), models, pool, log); err != nil {
		return cli.Exit(cli.ExitConfig, err)
	}
	return serveFrontend(ctx, s, f, pool, listener, log)
}

func frontendConfig(cfg *config.Config, keys *apikey.Ring, tracer *tracing.Tracer, name string) frontend.Config {
	socket, siblings := metricsSockets(cfg, name)
	return frontend.Config{
		Name: name, Keys: keys, Tracer: tracer, Version: version.Release,
		MaxBody: int64(cfg.MaxBody), MaxLogprobs: cfg.MaxLogprobs, AccessLog: cfg.AccessLog, DefaultMaxTokens: cfg.DefaultMaxTokens, Metrics: cfg.RequestMetrics, ToolParser: toolParser(cfg),
		HTTP: httpserve.Config{
			MaxConnections: cfg.MaxConnections, MaxPerAddress: cfg.MaxConnectionsPerAddress,
			DrainTimeout: cfg.DrainTimeout, DrainGrace: cfg.DrainGrace,
		},
		Socket: socket, Siblings: siblings, DevMode: cfg.DevMode, Video: videoSocket(cfg), Batches: batchSocket(cfg),
		CORS:      httpserve.CORS{Origins: cfg.AllowedOrigins, Methods: cfg.AllowedMethods, Headers: cfg.AllowedHeaders, Credentials: cfg.AllowCredentials},
		OpenSound: OpenSound,
	}
}

// OpenSound opens what FFmpeg's libraries read.
func OpenSound(ctx context.Context, file []byte) (speech.Sound, error) {
	s, err := ffmpeg.OpenSound(ctx, file)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// toolParser finds calls of tools in answers; empty where that is not asked for.
func toolParser(cfg *config.Config) string {
	if cfg.AutoToolChoice {
		return cfg.ToolCallParser
	}
	return ""
}

// serveFrontend answers requests until ctx ends, and sets the models anew on SIGHUP. It drains, and returns an error,
// when the connection to the scheduler breaks for good.
func serveFrontend(ctx context.Context, s settings.Settings, f *frontend.Frontend, pool *client.Client, listener net.Listener, log *zap.Logger) error {
	following, unfollow := context.WithCancelCause(context.WithoutCancel(ctx))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var group sync.WaitGroup
	group.Go(func() { // ends with following
		unfollow(pool.Run(following))
		stop()
	})
	group.Go(func() { s.OnReload(ctx, func() { resetModels(s, f, log) }) }) // ends with ctx
	err := f.Serve(ctx, listener)
	stop()
	unfollow(nil)
	group.Wait()
	if cause := context.Cause(following); !errors.Is(cause, context.Canceled) {
		return fmt.Errorf("connection to the scheduler: %w", cause)
	}
	return err
}

// resetModels reads the configuration anew and serves its models; a mistake leaves all as it is.
func resetModels(s settings.Settings, f *frontend.Frontend, log *zap.Logger) {
	next, _, _, err := s.Reread(s.Config)
	if err == nil {
		err = f.SetModels(servedModels(next))
	}
	if err != nil {
		log.Error("the models are left as they are", zap.Error(err))
	}
}

// metricsSockets are where frontends on one port tell each other their metrics: this one's and all; none
// for one alone.
func metricsSockets(cfg *config.Config, name string) (own string, all []string) {
	n, _ := strconv.Atoi(os.Getenv(frontendsEnv)) // not there for one that serve has not started
	if n < 2 {
		return "", nil
	}
	for i := range n {
		all = append(all, filepath.Join(cfg.RuntimeDir, frontendName(i)+".sock"))
	}
	return filepath.Join(cfg.RuntimeDir, name+".sock"), all
}

// sendPulse tells the supervisor how a frontend is.
func sendPulse(healthy, ready bool) {
	switch {
	case ready && healthy:
		supervise.SendSign(supervise.Ready)
	case healthy:
		supervise.SendSign(supervise.Healthy)
	default:
		supervise.SendSign(supervise.Alive)
	}
}

// openListener takes the supervisor's listening socket, or opens one.
func openListener(cfg *config.Config) (net.Listener, error) {
	if fd, err := strconv.Atoi(os.Getenv(listenerEnv)); err == nil {
		file := os.NewFile(uintptr(fd), "listener")
		defer file.Close()
		return net.FileListener(file)
	}
	return net.Listen("tcp", net.JoinHostPort(cfg.Host, strconv.Itoa(cfg.Port)))
}

// CheckFrontend finds before it is started what a frontend would refuse.
func CheckFrontend(cfg *config.Config) error {
	if _, err := apiKeys(cfg); err != nil {
		return cli.Exit(cli.ExitConfig, err)
	}
	_, err := traceSettings(cfg, "")
	return err
}

// WarnOfFiles says that the system lets a frontend open fewer files than its connections may be.
func WarnOfFiles(cfg *config.Config, log *zap.Logger) {
	var files syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) != nil {
		return
	}
	if needed := uint64(cfg.MaxConnections) + httpserve.SpareFiles; files.Cur < needed {
		log.Warn("a process may open too few files (ulimit -n): fewer connections than --max-connections are kept; raise the limit, or lower that",
			zap.Uint64("files", files.Cur), zap.Uint64("needed", needed), zap.Int("connections", max(1, int(files.Cur)-httpserve.SpareFiles)))
	}
}

// apiKeys joins the keys of the environment, the YAML file and --api-key-file.
func apiKeys(cfg *config.Config) (*apikey.Ring, error) {
	return apikey.NewRing(cfg.APIKey, cfg.APIKeyFile, cfg.CacheIsolation)
}
