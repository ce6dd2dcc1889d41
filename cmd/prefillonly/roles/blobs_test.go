package roles

import (
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/blob"
	"github.com/prefillonly/prefillonly/internal/config"
)

// TestBlobs: what one process keeps another one reads, by any endpoint of the scheduler.
func TestBlobs(t *testing.T) {
	for endpoint, address := range map[string]string{
		"ipc://" + t.TempDir() + "/s": "", "tcp://127.0.0.1:7000": "", "tcp://localhost:7000": "127.0.0.1", "tcp://127.0.0.2:7000": "127.0.0.1:0",
	} {
		cfg := config.Default()
		cfg.Endpoint, cfg.TensorAddress = endpoint, address
		a, b := NewBlobs(&cfg, 0), NewBlobs(&cfg, outputsFor)
		for _, way := range [][2]*blob.Endpoint{{a, b}, {b, a}} {
			name, err := way[0].Put([]byte("abc"))
			got := make([]byte, 3)
			if err == nil {
				err = way[1].Take(name, got)
			}
			if err != nil || string(got) != "abc" {
				t.Errorf("%s: %v, read %q", endpoint, err, got)
			}
		}
		a.Close()
		b.Close()
	}
}

// TestTensorAddress: by default it is the one from which the scheduler is reached.
func TestTensorAddress(t *testing.T) {
	for _, c := range []struct{ endpoint, given, want string }{
		{"tcp://127.0.0.1:7000", "", "127.0.0.1:0"}, {"tcp://10.0.0.1:7000", "10.0.0.2", "10.0.0.2:0"},
		{"tcp://10.0.0.1:7000", "10.0.0.2:7010", "10.0.0.2:7010"}, {"tcp://[::1]:7000", "[::1]", "[::1]:0"}, {"tcp://[::1]:7000", "::1", "[::1]:0"},
	} {
		cfg := config.Default()
		cfg.Endpoint, cfg.TensorAddress = c.endpoint, c.given
		if got, err := tensorAddress(&cfg); err != nil || got != c.want {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
	cfg := config.Default()
	cfg.Endpoint = "tcp://no.such.host.invalid:1"
	if _, err := tensorAddress(&cfg); err == nil || !strings.Contains(err.Error(), "--tensor-address") {
		t.Errorf("a scheduler whose host cannot be found: %v", err)
	}
}
