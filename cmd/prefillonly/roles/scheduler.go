package roles

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/cmd/prefillonly/settings"
	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/mq"
	"github.com/prefillonly/prefillonly/internal/telemetry"
	"github.com/prefillonly/prefillonly/scheduler"
)

// NewScheduler makes `prefillonly scheduler`.
func NewScheduler() *cobra.Command {
	return settings.Configured(&cobra.Command{
		Use:     "scheduler",
		Short:   "Run the scheduler alone",
		Example: "  prefillonly scheduler --scheduler-endpoint tcp://0.0.0.0:7000 --curve-key-file s.key --curve-peers-file peers.pub",
		Args:    cobra.NoArgs,
	}, config.Scheduler, runScheduler)
}

func runScheduler(cfg *config.Config, log *zap.Logger) error {
	ctx := stopSignal(context.Background())
	debugging, err := telemetry.ServeDebug(cfg.DebugPort, debugScheduler, log)
	if err != nil {
		return err
	}
	defer debugging.Close()
	options, err := mqOptions(cfg, mq.RoleScheduler, log)
	if err != nil {
		return err
	}
	if cfg.CurveKeyFile == "" && strings.HasPrefix(cfg.Endpoint, "tcp://") {
		log.Warn("every user of this machine who reaches the endpoint can read the prompts and forge answers", zap.String("endpoint", cfg.Endpoint))
	}
	claimed, err := claimPlaces(placesOfScheduler(cfg))
	if err != nil {
		return err
	}
	defer claimed.Close()
	listener, err := mq.Listen(cfg.Endpoint, options)
	if err != nil {
		return cli.Exit(cli.ExitConfig, err)
	}
	defer listener.Close()
	defer serveProcessors(cfg, log)()
	start := time.Now()
	server, err := scheduler.NewServer(cfg.Scheduler, rand.Uint64()|1, func() time.Duration { return time.Since(start) })
	if err != nil {
		return cli.Exit(cli.ExitConfig, err)
	}
	server.OnTick(sayAlive)
	if cfg.KVEvents.Enabled {
		events, err := openPublisher(&cfg.KVEvents, log)
		if err != nil {
			return cli.Exit(cli.ExitConfig, err)
		}
		defer events.Close()
		server.PublishTo(events)
	}
	log.Info("scheduling", zap.String("endpoint", cfg.Endpoint), zap.String("policy", cfg.Scheduler.Policy))
	return server.Run(ctx, listener)
}

func publisherOptions(k *config.KVEvents) mq.PublisherOptions {
	o := mq.PublisherOptions{
		Endpoint: k.Endpoint, ReplayEndpoint: k.ReplayEndpoint, Topic: k.Topic, BufferSteps: k.BufferSteps, HWM: k.HWM,
	}
	if k.Endpoint == "" {
		o.Endpoint, o.Listen = config.LoopbackEvents, true
	}
	return o
}

// openPublisher opens the endpoints of --kv-events-config, and warns of those that other hosts may reach: nothing is
// encrypted there, and no key of the API counts.
func openPublisher(k *config.KVEvents, log *zap.Logger) (*mq.Publisher, error) {
	o := publisherOptions(k)
	p, err := mq.NewPublisher(o)
	if err != nil {
		return nil, fmt.Errorf("kv-events-config: %w", err)
	}
	for _, endpoint := range []string{o.Endpoint, o.ReplayEndpoint} {
		if endpoint != "" && !mq.OnThisMachine(endpoint) {
			log.Warn("whoever reaches the endpoint of KV events can read the prompts' token ids", zap.String("endpoint", endpoint))
		}
	}
	return p, nil
}
