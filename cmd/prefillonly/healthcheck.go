package main

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/cmd/prefillonly/settings"
	"github.com/prefillonly/prefillonly/internal/config"
)

// probeTimeout bounds one question to the frontend's health.
const probeTimeout = 5 * time.Second

// newHealthcheckCommand makes `prefillonly healthcheck`, for images without curl.
func newHealthcheckCommand() *cobra.Command {
	return settings.Configured(&cobra.Command{
		Use:     "healthcheck",
		Short:   "Ask a running server whether it is healthy; exit 0 if so",
		Example: "  prefillonly healthcheck --port 8000",
		Args:    cobra.NoArgs,
	}, config.Probe, func(cfg *config.Config, _ *zap.Logger) error {
		return probeFrontend(cfg, "/health")
	})
}

// probeFrontend asks the frontend on this host; an answer other than 200 is an error.
func probeFrontend(cfg *config.Config, path string) error {
	client := http.Client{Timeout: probeTimeout}
	response, err := client.Get("http://" + net.JoinHostPort(loopbackAddress(cfg.Host), strconv.Itoa(cfg.Port)) + path)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", path, response.Status)
	}
	return nil
}

// loopbackAddress is the address of this host at which a server on all its addresses answers, others unchanged. It is a number:
// an image need not know localhost.
func loopbackAddress(host string) string {
	switch ip := net.ParseIP(host); {
	case host == "" || ip != nil && ip.IsUnspecified() && ip.To4() != nil:
		return "127.0.0.1"
	case ip != nil && ip.IsUnspecified():
		return "::1"
	}
	return host
}
