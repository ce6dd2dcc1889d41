// Package modeldir finds the directories of checkpoints: those that are given, those in the local Hugging Face
// cache, and the demo model's, which it unpacks.
package modeldir

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

// Resolve makes the paths of models directories, and gives those a name that have none. A model without a path is
// the demo model, which is unpacked below scratch. What keeps a model from being served is in failed at its position;
// err is about scratch.
func Resolve(list []config.Model, scratch string) (failed []error, err error) {
	failed = make([]error, len(list))
	for i := range list {
		m, name := &list[i], demo.Name
		if m.Path == "" {
			if m.Path, err = demo.Extract(scratch); err != nil {
				return failed, err
			}
		} else {
			m.Path, name, failed[i] = Find(m.Path)
		}
		if len(m.Names) == 0 {
			m.Names = []string{name}
		}
		if failed[i] == nil {
			failed[i] = check(m.Path)
		}
	}
	return failed, nil
}

// Find returns the directory that a user's word for a model means, or the word, and what the model is called.
func Find(path string) (dir, name string, err error) {
	switch {
	case !isDir(path) && isPath(path):
		_, err := os.ReadDir(path)
		return path, filepath.Base(path), fmt.Errorf("model: want the directory of a checkpoint: %w", err)
	case !isDir(path):
		dir, err := hubSnapshot(path)
		return dir, path, err
	}
	dir, err = filepath.Abs(path)
	return dir, filepath.Base(dir), err
}

// check reads the configuration of a checkpoint.
func check(dir string) error {
	c, err := weights.ReadConfig(dir)
	if err != nil {
		return fmt.Errorf("model: %w", err)
	}
	if err := model.CheckConfig(c); err != nil {
		return fmt.Errorf("model: %s: %w", dir, err)
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

// hubSnapshot finds the newest snapshot of a model in the local Hugging Face cache. Where there is none, it returns
// the id.
func hubSnapshot(id string) (string, error) {
	home := os.Getenv("HF_HOME")
	if home == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return id, err
		}
		home = filepath.Join(cache, "huggingface")
	}
	repo := filepath.Join(home, "hub", "models--"+strings.ReplaceAll(id, "/", "--"))
	revision, err := os.ReadFile(filepath.Join(repo, "refs", "main"))
	if errors.Is(err, os.ErrNotExist) {
		return id, fmt.Errorf("model %q is neither a directory nor in the Hugging Face cache (%s): download it, e.g. with `hf download %s`, or give its directory", id, repo, id)
	}
	if err != nil {
		return id, err
	}
	return filepath.Join(repo, "snapshots", strings.TrimSpace(string(revision))), nil
}
