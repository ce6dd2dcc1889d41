package cudnn_test

import (
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/kernels/cuda/cudatest"
	"github.com/prefillonly/prefillonly/kernels/cuda/cudnn"
)

func TestOpenFailures(t *testing.T) {
	if _, err := cudnn.Open(cudnn.Options{Library: "/nowhere/libcudnn.so.9"}); err == nil || !strings.Contains(err.Error(), "/nowhere/libcudnn.so.9") {
		t.Errorf("without a library: %v", err)
	}
	if _, err := cudnn.Open(cudnn.Options{Library: "libdl.so.2"}); err == nil || !strings.Contains(err.Error(), "cudnnGetVersion") {
		t.Errorf("with another library: %v", err)
	}
	o := cudnn.Options{Library: cudatest.BuildCudnn(t)}
	for version, want := range map[string]string{"91800": "9.18", "8907": "0.89", "100000": "10.0"} {
		t.Setenv("FAKE_CUDNN_VERSION", version)
		if _, err := cudnn.Open(o); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "9.19") {
			t.Errorf("version %s: %v, want a message with %s and 9.19", version, err, want)
		}
	}
	t.Setenv("FAKE_CUDNN_VERSION", "91900")
	t.Setenv("FAKE_CUDNN_CUDART", "99000")
	if _, err := cudnn.Open(o); err == nil || !strings.Contains(err.Error(), "libcublasLt.so.99") {
		t.Errorf("without the cuBLASLt that it needs: %v", err)
	}
	t.Setenv("FAKE_CUDNN_CUDART", "")
	l, err := cudnn.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if v := l.Version(); v != "9.19.0" {
		t.Errorf("version %s, want 9.19.0", v)
	}
}
