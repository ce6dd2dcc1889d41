package roles

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/cmd/prefillonly/settings"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/modellist"
	"github.com/prefillonly/prefillonly/internal/reach"
	"github.com/prefillonly/prefillonly/videoext/detect"
	"github.com/prefillonly/prefillonly/videoext/jobs"
	"github.com/prefillonly/prefillonly/videoext/live"
)

// NewVideo makes `prefillonly video serve`.
func NewVideo() *cobra.Command {
	command := &cobra.Command{
		Use:   "serve [MODEL...]",
		Short: "Keep video streams, for a frontend",
		Long: `Keeps the streams of /v1/video/streams: reads their sources or hosts their cameras, and has the pool look at their frames.
It is a process of its own, since video comes from strangers and its decoders are large; ` + "`prefillonly serve`" + ` starts it when a
model has a decoder. It listens on a socket in --runtime-dir, which frontends with the same directory hand requests to.`,
	}
	name := command.Flags().String("name", DefaultName("video"), "name among the peers of one scheduler, stable over restarts")
	return settings.Reconfigured(command, config.Video, func(s settings.Settings, log *zap.Logger) error { return runVideo(s, *name, log) })
}

// hasVideo says that streams of video may be kept: a model says what its outputs mean.
func hasVideo(cfg *config.Config) bool {
	for i := range cfg.Models {
		if d := cfg.Models[i].Decoder; d != "" && d != config.DecoderCTC {
			return true
		}
	}
	return false
}

// videoSocket is where the process that keeps streams listens; empty without one.
func videoSocket(cfg *config.Config) string {
	if !hasVideo(cfg) {
		return ""
	}
	return videoPath(cfg)
}

func videoPath(cfg *config.Config) string { return filepath.Join(cfg.RuntimeDir, "video.sock") }

func runVideo(s settings.Settings, name string, log *zap.Logger) error {
	cfg := s.Config
	claimed, err := claimPlaces(placesOfVideo(cfg))
	if err != nil {
		return err
	}
	defer claimed.Close()
	ctx := stopSignal(context.Background())
	_, remove, err := Prepare(ctx, cfg, true, log)
	if err != nil {
		return err
	}
	defer remove()
	if !hasVideo(cfg) {
		log.Warn("no model has a decoder, which says what its outputs mean: streams wait until the configuration gives them one")
	}
	peer, err := dialScheduler(cfg, wire.RoleFrontend, log)
	if err != nil {
		return err
	}
	defer peer.Close()
	defer followProcessors(cfg)()
	tensors := NewBlobs(cfg, 0)
	defer tensors.Close()
	pool := client.New(client.Config{Name: name, MaxJobs: cfg.MaxOpenJobs, Heartbeat: heartbeat, Pulse: sayAlive, Inputs: tensors, Outputs: tensors}, peer, log)
	return pool.Serve(ctx, func(ctx context.Context) error {
		maker := jobs.New(pool)
		defer maker.Close()
		kept := liveConfig(cfg)
		kept.Merges = mergeDirs{log}
		var err error
		if kept.Sources, err = reach.New(cfg.VideoSources); err != nil {
			return err
		}
		streams, err := live.New(kept, maker, log)
		if err != nil {
			return err
		}
		var group sync.WaitGroup
		defer group.Wait()
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		group.Go(func() { s.OnReload(ctx, func() { resetStreams(s, streams, log) }) }) // ends with ctx
		return serveStreams(ctx, streams, videoPath(cfg))
	})
}

// resetStreams reads the configuration anew, and has streams look by its models; a mistake leaves all as it is.
func resetStreams(s settings.Settings, streams *live.Server, log *zap.Logger) {
	next, _, _, err := s.Reread(s.Config)
	if err != nil {
		log.Error("the models of video streams are left as they are", zap.Error(err))
		return
	}
	streams.SetModels(liveConfig(next).Models)
	log.Info("video streams have the models read anew", zap.String("models", modellist.Names(next)))
}

func liveConfig(cfg *config.Config) live.Config {
	c := live.Config{Files: cfg.VideoFiles, State: cfg.VideoState, Memory: int64(cfg.VideoMemory)}
	if c.State == "" {
		c.State = filepath.Join(cfg.RuntimeDir, "video")
	}
	for i := range cfg.Models {
		m := &cfg.Models[i]
		if m.Decoder == "" || m.Decoder == config.DecoderCTC {
			continue
		}
		image := detect.Usual(m.Decoder)
		if m.Image.String() != "" {
			image = modellist.ImageOptions(&m.Image)
		}
		c.Models = append(c.Models, live.Model{Names: m.Names, Image: image, Decoder: m.Decoder, Merge: mergeOf(m), Original: modellist.IsOriginal(cfg, m)})
	}
	return c
}

// serveStreams answers requests on a socket until ctx ends.
func serveStreams(ctx context.Context, streams *live.Server, socket string) error {
	defer streams.Close()
	return serveSocket(ctx, streams.Handler(), socket, streams.Close)
}

// serveSocket answers requests on a socket until ctx ends; then it calls stopping.
func serveSocket(ctx context.Context, handler http.Handler, socket string, stopping func()) error {
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a predecessor that was killed
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		return errors.Join(err, listener.Close())
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 32 << 10}
	var group sync.WaitGroup
	group.Go(func() { // ends with ctx
		<-ctx.Done()
		stopping()
		_ = server.Close()
	})
	err = server.Serve(listener)
	group.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
