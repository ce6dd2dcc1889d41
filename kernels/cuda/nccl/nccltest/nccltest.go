// Package nccltest builds a libnccl.so.2 that works on host memory, for tests of what opens it.
package nccltest

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

//go:embed testdata/fake.c
var source []byte

// Build compiles the library and returns its path. What FAKE_NCCL does is said in testdata/fake.c.
func Build(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	file, library := filepath.Join(dir, "fake.c"), filepath.Join(dir, "libnccl.so.2")
	if err := os.WriteFile(file, source, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-O1", "-Wall", "-o", library, file, "-lpthread").CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	return library
}
