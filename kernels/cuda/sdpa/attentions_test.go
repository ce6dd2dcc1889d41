package sdpa

import (
	"slices"
	"strings"
	"testing"
)

// TestBackends: who asks for cuDNN gets it or an error, auto goes on without it and says why, and
// flashinfer does not look.
func TestBackends(t *testing.T) {
	good := withFake(t, Options{})
	old := func(t *testing.T) { t.Setenv("FAKE_CUDNN_VERSION", "90100") }
	refusing := func(t *testing.T) { t.Setenv("FAKE_CUDNN_REFUSE", "4096") }
	for name, c := range map[string]struct {
		backend string
		library string
		set     func(*testing.T)
		err     string
		covers  bool
		notes   []string // a word of each
	}{
		"cudnn":          {"cudnn", good.Library, nil, "", true, []string{"9.28.0"}},
		"auto":           {"auto", good.Library, nil, "", true, []string{"9.28.0"}},
		"no name":        {"", good.Library, nil, "", true, []string{"9.28.0"}},
		"flashinfer":     {"flashinfer", good.Library, nil, "", false, nil},
		"cudnn missing":  {"cudnn", "/nowhere/libcudnn.so.9", nil, "nvidia-cudnn", false, nil},
		"auto missing":   {"auto", "/nowhere/libcudnn.so.9", nil, "", false, []string{"FlashInfer"}},
		"cudnn too old":  {"cudnn", good.Library, old, "9.21", false, nil},
		"auto too old":   {"auto", good.Library, old, "", false, []string{"9.21"}},
		"refused shapes": {"cudnn", good.Library, refusing, "", false, []string{"9.28.0", "FAKE_NOT_SUPPORTED"}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.set != nil {
				c.set(t)
			}
			var notes []string
			a, err := OpenAttentions(c.backend, Options{Library: c.library, Note: func(s string) { notes = append(notes, s) }})
			if err != nil || c.err != "" {
				if err == nil || c.err == "" || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want one with %q", err, c.err)
				}
				return
			}
			defer a.Close()
			if first, second := a.Covers(anyShape), a.Covers(anyShape); first != c.covers || second != c.covers {
				t.Errorf("covers %v and then %v, want %v", first, second, c.covers)
			}
			if !slices.EqualFunc(notes, c.notes, strings.Contains) {
				t.Errorf("notes %q, want %q", notes, c.notes)
			}
		})
	}
}

// TestRunFailures: what goes wrong after a shape was covered names the way out.
func TestRunFailures(t *testing.T) {
	a, err := OpenAttentions("cudnn", withFake(t, Options{}))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if !a.Covers(anyShape) {
		t.Fatal("not covered")
	}
	if err := a.Run(anyShape, Bucket{1, 64, 128}, Call{}, 16); err == nil || !strings.Contains(err.Error(), "512") || !strings.Contains(err.Error(), "flashinfer") {
		t.Errorf("with a small workspace: %v", err)
	}
	t.Setenv("FAKE_CUDNN_REFUSE", "32")
	if err := a.Run(anyShape, Bucket{1, 32, 128}, Call{}, 512); err == nil || !strings.Contains(err.Error(), "flashinfer") {
		t.Errorf("a refused bucket: %v", err)
	}
	if err := a.Run(anyShape, Bucket{1, 64, 128}, Call{}, 512); err == nil || !strings.Contains(err.Error(), "cudnnBackendExecute") {
		t.Errorf("a call without addresses: %v", err)
	}
}
