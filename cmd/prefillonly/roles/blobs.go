package roles

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/prefillonly/prefillonly/engine/blob"
	"github.com/prefillonly/prefillonly/internal/config"
)

// outputsFor is how long an executor keeps outputs that nobody fetches: those of frontends that have died.
const outputsFor = time.Minute

// NewBlobs is how a process passes tensors: beside the scheduler's socket where all processes are on this host, over
// TLS where they need not be. What it keeps is dropped after hold at the latest, if that is not 0.
func NewBlobs(cfg *config.Config, hold time.Duration) *blob.Endpoint {
	dir := ""
	if path, ok := strings.CutPrefix(cfg.Endpoint, "ipc://"); ok {
		dir = filepath.Dir(path)
	}
	return blob.NewEndpoint(dir, func() (blob.Config, error) {
		c := blob.Config{Limit: int64(cfg.TensorMemory), Hold: hold, Dir: dir}
		var err error
		if dir == "" {
			c.Listen, err = tensorAddress(cfg)
		}
		return c, err
	})
}

// tensorAddress is where this process serves its tensors to other hosts: at the address that is given, or at the one
// from which it reaches the scheduler. A port that is not given is a free one.
func tensorAddress(cfg *config.Config) (string, error) {
	if given := cfg.TensorAddress; given != "" {
		if _, _, err := net.SplitHostPort(given); err == nil {
			return given, nil
		}
		return net.JoinHostPort(strings.Trim(given, "[]"), "0"), nil
	}
	conn, err := net.Dial("udp", strings.TrimPrefix(cfg.Endpoint, "tcp://")) // sends nothing
	if err != nil {
		return "", fmt.Errorf("no address to serve tensors at: %w; give --tensor-address", err)
	}
	defer conn.Close()
	return net.JoinHostPort(conn.LocalAddr().(*net.UDPAddr).IP.String(), "0"), nil
}
