// Package demo holds the demo model: a Llama of three million parameters, trained by
// tools/train/demo/train.py on made-up users and made-up credit requests, that answers Yes or No.
package demo

import (
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

//go:embed files
var files embed.FS

// Name is the model's name to clients unless another is given.
const Name = "prefillonly-demo"

// FS is the checkpoint as Hugging Face lays it out: config.json, model.safetensors, tokenizer.json
// and so on.
func FS() fs.FS {
	sub, err := fs.Sub(files, "files")
	if err != nil {
		panic(err) // only for a malformed path
	}
	return sub
}

// Extract writes the checkpoint below dir, as weights are mapped from files, and returns its
// directory. The directory's name is a hash of the contents: one that is complete already is used
// again, and of processes that extract at the same time one writes while the others wait.
func Extract(dir string) (string, error) {
	name, err := contentName()
	if err != nil {
		return "", err
	}
	target := filepath.Join(dir, name)
	if isComplete(target) {
		return target, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("demo model: %w", err)
	}
	unlock, err := lock(dir)
	if err != nil {
		return "", fmt.Errorf("demo model: %w", err)
	}
	defer unlock()
	if isComplete(target) {
		return target, nil
	}
	temporary, err := os.MkdirTemp(dir, name+".tmp-")
	if err != nil {
		return "", fmt.Errorf("demo model: %w; give a directory that can be written, or --model", err)
	}
	defer func() { _ = os.RemoveAll(temporary) }()
	if err := os.Chmod(temporary, 0o755); err != nil {
		return "", fmt.Errorf("demo model: %w", err)
	}
	fresh := filepath.Join(temporary, "files")
	if err := os.CopyFS(fresh, FS()); err != nil {
		return "", fmt.Errorf("demo model: %w", err)
	}
	if _, err := os.Stat(target); err == nil {
		// Incomplete, so in no one's use: moved out of the way and removed with the temporary directory.
		if err := os.Rename(target, filepath.Join(temporary, "broken")); err != nil {
			return "", fmt.Errorf("demo model: %w", err)
		}
	}
	if err := os.Rename(fresh, target); err != nil {
		return "", fmt.Errorf("demo model: %w", err)
	}
	return target, nil
}

// lock keeps other processes from writing in dir until unlock, or until this process has ended.
func lock(dir string) (unlock func(), err error) {
	held, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX); err != nil {
		_ = held.Close()
		return nil, &fs.PathError{Op: "lock", Path: dir, Err: err}
	}
	return func() { _ = held.Close() }, nil
}

// contentName is "demo-" and the beginning of a SHA-256 over the names and contents.
func contentName() (string, error) {
	hash := sha256.New()
	err := eachFile(func(name string, text []byte) error {
		fmt.Fprintf(hash, "%s %d\n", name, len(text))
		hash.Write(text)
		return nil
	})
	return fmt.Sprintf("demo-%x", hash.Sum(nil)[:8]), err
}

var errIncomplete = errors.New("incomplete")

// isComplete reports whether dir holds every file in full length.
func isComplete(dir string) bool {
	return eachFile(func(name string, text []byte) error {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Size() != int64(len(text)) {
			return errIncomplete
		}
		return nil
	}) == nil
}

// eachFile visits the files in the order of their names.
func eachFile(visit func(name string, text []byte) error) error {
	entries, err := fs.ReadDir(FS(), ".")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		text, err := fs.ReadFile(FS(), entry.Name())
		if err != nil {
			return err
		}
		if err := visit(entry.Name(), text); err != nil {
			return err
		}
	}
	return nil
}
