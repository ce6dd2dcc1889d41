// Package cudatest builds libraries that stand in for NVIDIA's and compute on the host, for tests of what opens them.
package cudatest

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// BuildCudnn compiles a libcudnn.so.9, with a cuBLASLt beside it, and returns its path. How it is made to misbehave is said in
// testdata/cudnn/fake.c.
func BuildCudnn(t testing.TB) string {
	t.Helper()
	_, file, _, _ := runtime.Caller(0)
	dir := t.TempDir()
	library, cublas := filepath.Join(dir, "libcudnn.so.9"), filepath.Join(dir, "libcublasLt.so.13")
	for _, args := range [][]string{
		{"-o", cublas, "-Wl,-soname,libcublasLt.so.13", "-x", "c", "/dev/null"},
		{"-o", library, "-Wl,--no-as-needed", "-Wl,-rpath," + dir, filepath.Join(filepath.Dir(file), "testdata", "cudnn", "fake.c"), cublas, "-lm"},
	} {
		out, err := exec.Command("gcc", append([]string{"-O2", "-Wall", "-Werror", "-shared", "-fPIC"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("gcc: %v\n%s", err, out)
		}
	}
	return library
}
