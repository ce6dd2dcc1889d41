package roles

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/dirlock"
)

// claimedEnv tells children that their supervisor has claimed what they use.
const claimedEnv = config.ChildEnvPrefix + "CLAIMED"

// place is a directory or a socket that one server or process has at a time, and the parameter that names it.
type place struct{ parameter, dir, name string }

// placesOfServer are those of all processes that a supervisor starts. A runtime directory that is not given is a new one.
func placesOfServer(cfg *config.Config) []place {
	list := placesOfScheduler(cfg)
	if cfg.RuntimeDir != "" {
		list = append(list, place{"--runtime-dir", cfg.RuntimeDir, "serve"})
	}
	if hasVideo(cfg) {
		list = append(list, placesOfVideo(cfg)...)
	}
	if cfg.BatchDir != "" {
		list = append(list, placesOfBatches(cfg)...)
	}
	return list
}

func placesOfScheduler(cfg *config.Config) []place {
	path, here := strings.CutPrefix(cfg.Endpoint, "ipc://")
	if !here || strings.HasPrefix(path, "@") { // an abstract name, which the system gives once
		return nil
	}
	return []place{{"--scheduler-endpoint", filepath.Dir(path), filepath.Base(path)}}
}

func placesOfVideo(cfg *config.Config) (list []place) {
	if cfg.RuntimeDir != "" {
		list = append(list, place{"--runtime-dir", cfg.RuntimeDir, "video"})
	}
	if cfg.VideoState != "" {
		list = append(list, place{"--video-state", cfg.VideoState, "state"})
	}
	return list
}

func placesOfBatches(cfg *config.Config) []place {
	list := []place{{"--batch-dir", cfg.BatchDir, "files"}}
	if cfg.RuntimeDir != "" {
		list = append(list, place{"--runtime-dir", cfg.RuntimeDir, "batches"})
	}
	return list
}

// claims are what this process has claimed, until they are closed.
type claims []io.Closer

// claimPlaces claims places for this process, unless its supervisor has. It refuses those that another process has.
func claimPlaces(list []place) (c claims, err error) {
	if os.Getenv(claimedEnv) != "" {
		return nil, nil
	}
	for _, p := range list {
		lock, err := dirlock.Take(p.dir, p.name)
		if err != nil {
			c.Close()
			return nil, cli.Exit(cli.ExitConfig, fmt.Errorf("%s: %w", p.parameter, err))
		}
		c = append(c, lock)
	}
	return c, nil
}

// Close gives everything back.
func (c claims) Close() error {
	var all []error
	for _, lock := range c {
		all = append(all, lock.Close())
	}
	return errors.Join(all...)
}
