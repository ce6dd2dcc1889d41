package cudnn

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/kernels/cuda/cudatest"
)

// TestBackends: who asks for cuDNN gets it or an error, auto goes on without it and says why, and
// flashinfer does not look.
func TestAttentionBackends(t *testing.T) {
	good := cudatest.BuildCudnn(t)
	old := func(t *testing.T) { t.Setenv("FAKE_CUDNN_VERSION", "90100") }
	refusing := func(t *testing.T) { t.Setenv("FAKE_CUDNN_REFUSE", "4096") }
	for name, c := range map[string]struct {
		backend string
		library string
		set     func(*testing.T)
		err     string
		covers  bool
		notes   []string // a word of each
		trial   error
	}{
		"cudnn":          {"cudnn", good, nil, "", true, []string{"9.28.0", "fake_kernel"}, nil},
		"auto":           {"auto", good, nil, "", true, []string{"9.28.0", "fake_kernel"}, nil},
		"no name":        {"", good, nil, "", true, []string{"9.28.0", "fake_kernel"}, nil},
		"flashinfer":     {"flashinfer", good, nil, "", false, nil, nil},
		"cudnn missing":  {"cudnn", "/nowhere/libcudnn.so.9", nil, "nvidia-cudnn", false, nil, nil},
		"auto missing":   {"auto", "/nowhere/libcudnn.so.9", nil, "", false, []string{"FlashInfer"}, nil},
		"cudnn too old":  {"cudnn", good, old, "9.19", false, nil, nil},
		"auto too old":   {"auto", good, old, "", false, []string{"9.19"}, nil},
		"refused shapes": {"cudnn", good, refusing, "", false, []string{"9.28.0", "FAKE_NOT_SUPPORTED"}, nil},
		"wrong results":  {"cudnn", good, nil, "", false, []string{"9.28.0", "they differ"}, errors.New("they differ")},
	} {
		t.Run(name, func(t *testing.T) {
			if c.set != nil {
				c.set(t)
			}
			var notes []string
			a, err := OpenAttentions(c.backend, NewSource(Options{Library: c.library}), AttentionOptions{Note: func(s string) { notes = append(notes, s) }})
			if err != nil || c.err != "" {
				if err == nil || c.err == "" || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want one with %q", err, c.err)
				}
				return
			}
			defer a.Close()
			tried := 0
			try := func() error { tried++; return c.trial }
			if first, second := a.Covers(anyShape, try), a.Covers(anyShape, try); first != c.covers || second != c.covers || tried > 1 {
				t.Errorf("covers %v and then %v after %d trials, want %v", first, second, tried, c.covers)
			}
			if !slices.EqualFunc(notes, c.notes, strings.Contains) {
				t.Errorf("notes %q, want %q", notes, c.notes)
			}
		})
	}
}

// TestRunFailures: what goes wrong after a shape was covered names the way out.
func TestRunFailures(t *testing.T) {
	a, err := OpenAttentions("cudnn", NewSource(Options{Library: cudatest.BuildCudnn(t)}), AttentionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if !a.Covers(anyShape, func() error { return nil }) {
		t.Fatal("not covered")
	}
	if err := a.Run(anyShape, AttentionBucket{1, 64, 128}, AttentionCall{}, 16); err == nil || !strings.Contains(err.Error(), "512") || !strings.Contains(err.Error(), "flashinfer") {
		t.Errorf("with a small workspace: %v", err)
	}
	t.Setenv("FAKE_CUDNN_REFUSE", "32")
	if err := a.Run(anyShape, AttentionBucket{1, 32, 128}, AttentionCall{}, 512); err == nil || !strings.Contains(err.Error(), "flashinfer") {
		t.Errorf("a refused bucket: %v", err)
	}
	if err := a.Run(anyShape, AttentionBucket{1, 64, 128}, AttentionCall{}, 512); err == nil || !strings.Contains(err.Error(), "cudnnBackendExecute") {
		t.Errorf("a call without addresses: %v", err)
	}
}
