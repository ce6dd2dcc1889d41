package regular

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("file", link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, link} {
		if got, err := ReadFile(name, 7); err != nil || string(got) != "content" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := ReadFile(path, 6); err == nil || !strings.Contains(err.Error(), path+" has more than 6 bytes") {
		t.Errorf("beyond the limit: %v", err)
	}
	if _, err := ReadFile(filepath.Join(dir, "none"), 6); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

// TestOthersAreRefused would wait for ever if a pipe were opened as a file is.
func TestOthersAreRefused(t *testing.T) {
	dir := t.TempDir()
	pipe, socket := filepath.Join(dir, "pipe"), filepath.Join(dir, "socket")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	link := filepath.Join(dir, "link")
	if err := os.Symlink("/dev/zero", link); err != nil {
		t.Fatal(err)
	}
	for path, kind := range map[string]string{dir: "directory", pipe: "pipe", socket: "socket", "/dev/zero": "device", link: "device"} {
		if _, err := ReadFile(path, 100); err == nil || !strings.Contains(err.Error(), path+" is a "+kind) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
