package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/prefillonly/prefillonly/engine/demo"
	"github.com/prefillonly/prefillonly/engine/model"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/internal/config"
)

// prepareModel makes cfg.RuntimeDir a directory that exists and cfg.Model that of a checkpoint. remove
// deletes what was made for this process alone.
func prepareModel(cfg *config.Config) (remove func(), err error) {
	cfg.RuntimeDir, remove, err = scratchDir(cfg)
	if err != nil {
		return nil, err
	}
	if err := resolveModel(cfg, cfg.RuntimeDir); err != nil {
		remove()
		return nil, err
	}
	return remove, nil
}

// resolveModel makes cfg.Model the directory of a checkpoint whose config.json is readable, and
// names it. The demo model is unpacked below scratch.
func resolveModel(cfg *config.Config, scratch string) error {
	name := cfg.Model
	switch {
	case cfg.Model == "":
		dir, err := demo.Extract(scratch)
		if err != nil {
			return err
		}
		cfg.Model, name = dir, demo.Name
	case !isDir(cfg.Model) && isPath(cfg.Model):
		_, err := os.ReadDir(cfg.Model)
		return &exitError{exitConfig, fmt.Errorf("model: want the directory of a checkpoint: %w", err)}
	case !isDir(cfg.Model):
		dir, err := hubSnapshot(cfg.Model)
		if err != nil {
			return &exitError{exitConfig, err}
		}
		cfg.Model = dir
	default:
		dir, err := filepath.Abs(cfg.Model)
		if err != nil {
			return err
		}
		cfg.Model, name = dir, filepath.Base(dir)
	}
	if len(cfg.ServedModelName) == 0 {
		cfg.ServedModelName = []string{name}
	}
	config, err := weights.ReadConfig(cfg.Model)
	if err != nil {
		return &exitError{exitConfig, fmt.Errorf("model: %w", err)}
	}
	if err := model.CheckConfig(config); err != nil {
		return &exitError{exitConfig, fmt.Errorf("model: %s: %w", cfg.Model, err)}
	}
	return nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// hubID is what a model in the Hugging Face hub can be called.
var hubID = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*(/[\w.-]+)?$`)

// isPath says that a model's name is meant as a directory: it cannot be one of the hub, or begins with a directory
// that is there.
func isPath(name string) bool {
	first, _, below := strings.Cut(name, "/")
	return !hubID.MatchString(name) || below && isDir(first)
}

// hubSnapshot finds the newest snapshot of a model in the local Hugging Face cache.
func hubSnapshot(id string) (string, error) {
	home := os.Getenv("HF_HOME")
	if home == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		home = filepath.Join(cache, "huggingface")
	}
	repo := filepath.Join(home, "hub", "models--"+strings.ReplaceAll(id, "/", "--"))
	revision, err := os.ReadFile(filepath.Join(repo, "refs", "main"))
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("model %q is neither a directory nor in the Hugging Face cache (%s): download it, e.g. with `hf download %s`, or give its directory", id, repo, id)
	}
	if err != nil {
		return "", err
	}
	return filepath.Join(repo, "snapshots", strings.TrimSpace(string(revision))), nil
}

// scratchDir is the runtime directory, or a new private one that remove deletes.
func scratchDir(cfg *config.Config) (dir string, remove func(), err error) {
	if cfg.RuntimeDir != "" {
		return cfg.RuntimeDir, func() {}, os.MkdirAll(cfg.RuntimeDir, 0o700)
	}
	if dir, err = os.MkdirTemp("", "prefillonly-"); err != nil {
		return "", nil, fmt.Errorf("%w; give a --runtime-dir that can be written", err)
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil
}
