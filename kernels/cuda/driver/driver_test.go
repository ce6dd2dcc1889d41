package driver

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/kernels/cuda/cudatest"
)

// tagged builds this package's tests with the tag cuda.
func tagged(t *testing.T) string {
	t.Helper()
	script, err := exec.Command("../../../tools/build/cuda.sh").Output()
	if err != nil {
		t.Fatalf("tools/build/cuda.sh: %v", err)
	}
	binary := filepath.Join(t.TempDir(), "kernels.test")
	build := exec.Command("go", "test", "-c", "-tags", "cuda", "-o", binary, ".")
	build.Env = os.Environ()
	for _, pair := range regexp.MustCompile(`(\w+)='([^']*)'`).FindAllStringSubmatch(string(script), -1) {
		build.Env = append(build.Env, pair[1]+"="+pair[2])
	}
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go test -c -tags cuda: %v\n%s", err, out)
	}
	return binary
}

// TestDriver runs tests for a GPU against testdata/driver.cc, a CUDA driver on the host: the calls to the
// driver and to cuBLASLt and their arguments are those of a real one, and kernels run from their
// sources.
func TestDriver(t *testing.T) {
	binary := tagged(t)
	libraries := t.TempDir()
	compile := exec.Command("g++", "-std=c++17", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-Wno-unknown-pragmas", "-o", filepath.Join(libraries, "libcuda.so.1"), "testdata/driver.cc")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("g++: %v\n%s", err, out)
	}
	if err := os.Symlink("libcuda.so.1", filepath.Join(libraries, "libcublasLt.so.13")); err != nil {
		t.Fatal(err)
	}
	cudnn := filepath.Dir(cudatest.BuildCudnn(t))
	run := func(pattern string, env ...string) string {
		command := exec.Command(binary, "-test.v", "-test.run", pattern)
		command.Env = append(append(os.Environ(), "LD_LIBRARY_PATH="+libraries+":"+cudnn), env...)
		out, err := command.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", pattern, err, out)
		}
		return string(out)
	}
	// What is left of the suite says more of kernels than of calls, and simt runs it.
	for _, pattern := range []string{"^TestGPU$/^(Buffer|Embed|NormLinear|AddLinear|MLP|Logits|Attention)$", "^TestGPU(Fill|Staging|HostMemory)$", "^TestGPUInt8$/^activations_too$/^(Linears|Head|Extremes)$", "^TestGPUInt8$/^weights$/^(MLP|Head)$",
		"^TestGPUNetworks$/^(Filter|ConvBackward|Programs|MatMul|Reduce|Malformed|Free)$", "^TestGPUConvolutions$/^(Filter|ConvBackward|Malformed|Free)$"} {
		if out := run(pattern); strings.Contains(out, "SKIP") || !strings.Contains(out, "--- PASS: TestGPU") {
			t.Errorf("%s did not run on the driver:\n%s", pattern, out)
		}
	}
	// Each of an asynchronous copy's own errors tells whether the device is lost.
	for _, status := range []string{"2", "719"} {
		if out := run("^TestGPUCopyFails$", "FAKE_COPY="+status); !strings.Contains(out, "--- PASS: TestGPUCopyFails") {
			t.Errorf("with status %s:\n%s", status, out)
		}
	}
	// A driver that cannot start is no reason not to.
	if out := run("^TestGPUFill$", "FAKE_CUINIT=803"); !strings.Contains(out, "803") && !strings.Contains(out, "SystemDriverMismatch") {
		t.Errorf("why the driver does not start is not told:\n%s", out)
	}
}
