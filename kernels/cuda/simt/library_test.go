package simt_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/cudatest"
	"github.com/prefillonly/prefillonly/kernels/cuda/cudnn"
	"github.com/prefillonly/prefillonly/kernels/cuda/simt"
	"github.com/prefillonly/prefillonly/kernels/kerneltest"
	"github.com/prefillonly/prefillonly/kernels/networktest"
)

// workspace of cuDNN's plans.
const workspace = 1 << 20

// withCudnn makes backends whose convolutions the library at this path computes. Notes are appended.
func withCudnn(library string, notes *[]string) kerneltest.Open {
	return func(t testing.TB) kernels.Backend {
		t.Helper()
		device := simt.New()
		at, err := device.Alloc(workspace)
		if err != nil {
			t.Fatal(err)
		}
		source := cudnn.NewSource(cudnn.Options{Library: library})
		device.Library = cudnn.NewConvolutions(cudnn.ConvolutionOptions{
			Source: source, Workspace: uint64(at), WorkspaceBytes: workspace, Wait: func() {}, Note: func(s string) { *notes = append(*notes, s) },
		})
		b := cuda.New(device)
		t.Cleanup(func() {
			device.Library.Close()
			source.Close()
			b.Close()
		})
		return b
	}
}

// TestNetworksByCudnn runs the suite through the stand-in for cuDNN, which holds what it is given to cuDNN's reference.
func TestNetworksByCudnn(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	t.Setenv("FAKE_CUDNN_LOG", log)
	var notes []string
	networktest.Run(t, withCudnn(cudatest.BuildCudnn(t), &notes))
	for _, n := range notes {
		if strings.Contains(n, "by our own kernels") {
			t.Errorf("note %q", n)
		}
	}
	content, err := os.ReadFile(log)
	if ran := strings.Count(string(content), "ran"); err != nil || ran < 500 {
		t.Errorf("%d convolutions ran by the library: %v", ran, err)
	}
}

// oneConv computes a convolution and its gradient with bias and ReLU.
func oneConv(t *testing.T, open kerneltest.Open) error {
	t.Helper()
	b := open(t).(*cuda.Backend)
	spec := kernels.ConvSpec{In: 4, Out: 8, Groups: 1, Kernel: []int{3, 3}, Strides: []int{1, 1}, Dilations: []int{1, 1}}
	weight := kernels.HostTensor{Name: "weight", Type: kernels.F32, Rows: 8, Cols: 36, Data: make([]byte, 4*8*36)}
	f, err := b.NewFilter(spec, weight)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Free()
	tensor := func(channels int) kernels.Tensor {
		buf, err := b.Alloc(int64(4 * 2 * 6 * 6 * channels))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(buf.Free)
		return kernels.Tensor{Buf: buf, Shape: []int{2, 6, 6, channels}, Stride: []int{36 * channels, 6 * channels, channels, 1}}
	}
	dst, src, shift := tensor(8), tensor(4), tensor(8).Buf
	relu := &kernels.Program{Operands: 1, Code: []kernels.Instruction{{Op: kernels.Constant}, {Op: kernels.Max, A: 0, B: 1}}}
	b.Conv(dst, src, f, kernels.Affine{Shift: shift}, []int{-1, -1}, relu)
	b.ConvBackward(src, dst, f, []int{-1, -1})
	return b.Sync()
}

// TestCudnnFaults: where cuDNN is missing, lacks a function, or refuses or is wrong, our own kernels compute and one
// note of each kind of convolution says so; a plan that fails while it runs is the pass's error.
func TestCudnnFaults(t *testing.T) {
	library := cudatest.BuildCudnn(t)
	for name, c := range map[string]struct {
		library, env, value string
		notes               []string // words of one each
		err                 string
	}{
		"well":                     {library, "", "", []string{"9.28.0 for convolutions"}, ""},
		"none that fuses":          {library, "FAKE_CUDNN_FUSES", "0", []string{"for convolutions", "with bias and ReLU by our own kernels"}, ""},
		"by the fallback":          {library, "FAKE_CUDNN_HEURISTIC", "0", []string{"for convolutions"}, ""},
		"missing":                  {"/nowhere/libcudnn.so.9", "", "", []string{"/nowhere/libcudnn.so.9"}, ""},
		"a function missing":       {"libdl.so.2", "", "", []string{"cudnnGetVersion"}, ""},
		"too old":                  {library, "FAKE_CUDNN_VERSION", "90100", []string{"9.19 or newer"}, ""},
		"plans refused":            {library, "FAKE_CUDNN_REFUSE", "-2", []string{"for convolutions", "with bias and ReLU by our own kernels", "by engine", "backward by our own kernels"}, ""},
		"a workspace too large":    {library, "FAKE_CUDNN_WORKSPACE", "1048577", []string{"for convolutions", "1048577 bytes", "1048577 bytes", "1048577 bytes"}, ""},
		"wrong results":            {library, "FAKE_CUDNN_WRONG", "1", []string{"for convolutions", "differ", "differ", "differ"}, ""},
		"other bits in parts":      {library, "FAKE_CUDNN_WRONG", "2", []string{"for convolutions", "same call", "same call", "same call"}, ""},
		"only one image at a time": {library, "FAKE_CUDNN_BATCHES", "0", []string{"for convolutions", "Images:2", "Images:2", "Images:2"}, ""},
		"failing trials":           {library, "FAKE_CUDNN_EXECUTE", "5001", []string{"for convolutions", "5001", "5001", "5001"}, ""},
		"failing later":            {library, "FAKE_CUDNN_FAILS_AFTER", "7", []string{"for convolutions"}, "FAKE_EXECUTION_FAILED (5000)"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.env != "" {
				t.Setenv(c.env, c.value)
			}
			var notes []string
			err := oneConv(t, withCudnn(c.library, &notes))
			if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want one with %q", err, c.err)
			}
			if len(notes) != len(c.notes) {
				t.Fatalf("notes %q, want %d", notes, len(c.notes))
			}
			for i, n := range notes {
				if !strings.Contains(n, c.notes[i]) {
					t.Errorf("note %q, want one with %q", n, c.notes[i])
				}
			}
		})
	}
}
