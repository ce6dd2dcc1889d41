package cudatest

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

//go:embed testdata/nccl/fake.c
var ncclSource []byte

// BuildNCCL compiles a libnccl.so.2 that works on host memory, and returns its path. What FAKE_NCCL does is said in testdata/nccl/fake.c.
func BuildNCCL(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	file, library := filepath.Join(dir, "fake.c"), filepath.Join(dir, "libnccl.so.2")
	if err := os.WriteFile(file, ncclSource, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-O1", "-Wall", "-o", library, file, "-lpthread").CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	return library
}
