package modellist

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/prefillonly/prefillonly/engine/checkpoint"
	"github.com/prefillonly/prefillonly/engine/demo"
	"github.com/prefillonly/prefillonly/engine/dnn"
	"github.com/prefillonly/prefillonly/engine/dnn/onnx"
	"github.com/prefillonly/prefillonly/engine/encoder"
	"github.com/prefillonly/prefillonly/engine/model/architecture"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/weights/gguf"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/hub"
)

// resolveFiles makes the paths of models those of a directory or of a network's file, and gives those a name that have none,
// and those a task. A model without a path is the demo model, which is unpacked below scratch. What keeps a model from
// being served is in failed at its position; err is about scratch.
func resolveFiles(list []config.Model, scratch string, fetch Fetch) (failed []error, err error) {
	failed = make([]error, len(list))
	for i := range list {
		m, name := &list[i], demo.Name
		if m.Path == "" {
			if m.Path, err = demo.Extract(scratch); err != nil {
				return failed, err
			}
		} else {
			m.Path, name, failed[i] = Find(m.Path, m.Revision, fetch)
		}
		if len(m.Names) == 0 {
			m.Names = []string{name}
		}
		if failed[i] == nil {
			m.Revision = "" // the path is that of a commit
			failed[i] = settleTask(m)
		}
	}
	return failed, nil
}

// settleTask checks a model's files, and sets its task.
func settleTask(m *config.Model) error {
	task, want := m.Task, config.TaskGenerate
	file, network := dnn.File(m.Path)
	if network {
		want = config.TaskInfer
	}
	if m.Task = want; task != "" && task != want {
		return fmt.Errorf("model: %s: invalid task %s: want %s, by its files", m.Path, task, want)
	}
	if network {
		return checkNetwork(file)
	}
	if err := checkConfig(m.Path); err != nil {
		return err
	}
	if _, err := Purpose(m); err != nil {
		return fmt.Errorf("model: %w", err)
	}
	return nil
}

// Purpose is what the checkpoint of m is for.
func Purpose(m *config.Model) (*checkpoint.Model, error) {
	o := &m.Overrides
	return checkpoint.Open(m.Path, m.Names[0], checkpoint.Overrides{AnswerTokens: o.ClassifierFromToken, Method: o.Method, Qwen3Reranker: o.Original})
}

// checkNetwork reads a network's file.
func checkNetwork(file string) error {
	m, err := onnx.Open(file)
	if err != nil {
		return fmt.Errorf("model: %w", err)
	}
	return m.Close()
}

// Find returns the directory, the first GGUF file or the network's file that a user's word for a model means, or the word, and what the
// model is called. A model of the hub is fetched.
func Find(path, revision string, fetch Fetch) (found, name string, err error) {
	_, network := dnn.File(path)
	switch {
	case !network && !isDir(path) && !isPath(path) && !isFile(path):
		return ofHub(path, revision, fetch)
	case revision != "":
		return path, filepath.Base(path), fmt.Errorf("model: revision %q of %s, which is a path: only models of the Hugging Face hub have revisions", revision, path)
	case network:
		found, err = filepath.Abs(path)
		return found, strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), err
	case isFile(path) && gguf.IsName(path):
		found, err = filepath.Abs(path)
		return found, gguf.ModelName(path), err
	case isFile(path):
		return path, filepath.Base(path), fmt.Errorf("model: %s is a file, want the directory of a checkpoint in safetensors, a GGUF file, or an ONNX file", path)
	case !isDir(path):
		_, err := os.ReadDir(path)
		return path, filepath.Base(path), fmt.Errorf("model: want the directory of a checkpoint, a GGUF file, or an ONNX file: %w", err)
	}
	found, err = filepath.Abs(path)
	return found, filepath.Base(found), err
}

// checkConfig reads the configuration of a checkpoint.
func checkConfig(dir string) error {
	c, err := weights.ReadConfig(dir)
	if err != nil {
		return fmt.Errorf("model: %w", err)
	}
	check := architecture.CheckConfig
	if encoder.IsEncoder(c) {
		check = encoder.CheckConfig
	}
	if err := check(c); err != nil {
		return fmt.Errorf("model: %s: %w", dir, err)
	}
	return nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}

// isPath says that a model's name is meant as a path: it cannot be one of the hub, is that of a GGUF file, or begins with a directory
// that is there.
func isPath(name string) bool {
	first, _, below := strings.Cut(name, "/")
	return !hub.IsName(name) || gguf.IsName(name) || below && isDir(first)
}
