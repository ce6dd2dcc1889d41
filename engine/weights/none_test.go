package weights

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestFilesThatAreNone opens checkpoints in which a file is a pipe, a directory or a device. A pipe that
// is opened as a file is would wait for ever.
func TestFilesThatAreNone(t *testing.T) {
	kinds := map[string]func(path string) error{
		"pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"device":    func(path string) error { return os.Symlink("/dev/zero", path) },
	}
	opened := func(dir string) error {
		_, err := Open(dir)
		return err
	}
	for _, c := range []struct {
		file, index string
		open        func(dir string) error
	}{
		{singleFile, "", opened},
		{indexFile, "", opened},
		{"shard.safetensors", `{"weight_map":{"a":"shard.safetensors"}}`, opened},
		{"config.json", "", func(dir string) error { _, err := ReadConfig(dir); return err }},
	} {
		for kind, create := range kinds {
			dir := t.TempDir()
			if err := create(filepath.Join(dir, c.file)); err != nil {
				t.Fatal(err)
			}
			if c.index != "" {
				writeText(t, dir, indexFile, c.index)
			}
			failed := make(chan error, 1)
			go func() { failed <- c.open(dir) }() // ends with open
			select {
			case err := <-failed:
				if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, c.file)+" is a "+kind) {
					t.Errorf("%s as a %s: %v", c.file, kind, err)
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("%s as a %s: no answer", c.file, kind)
			}
		}
	}
}
