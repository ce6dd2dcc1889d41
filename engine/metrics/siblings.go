package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// siblingTimeout bounds one question to a sibling, which may stand still.
const siblingTimeout = 2 * time.Second

// sibling is another frontend on the same port, as a source of metrics.
type sibling struct {
	client http.Client
	socket string
}

// siblings are those of the frontends at sockets that are not at own.
func siblings(sockets []string, own string) prometheus.Gatherers {
	var all prometheus.Gatherers
	for _, socket := range sockets {
		if socket == own {
			continue
		}
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}
		all = append(all, &sibling{socket: socket, client: http.Client{
			Timeout: siblingTimeout, Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true},
		}})
	}
	return all
}

// Gather implements prometheus.Gatherer. A sibling that is dead or stands still has nothing to tell; it
// is started again, and its counters begin anew.
func (s *sibling) Gather() ([]*dto.MetricFamily, error) {
	response, err := s.client.Get("http://frontend/metrics")
	if err != nil {
		return nil, nil
	}
	defer response.Body.Close()
	var families []*dto.MetricFamily
	for decoder := expfmt.NewDecoder(response.Body, expfmt.ResponseFormat(response.Header)); ; {
		family := &dto.MetricFamily{}
		switch err := decoder.Decode(family); {
		case errors.Is(err, io.EOF):
			return families, nil
		case err != nil:
			return nil, nil // it died half-way
		}
		families = append(families, family)
	}
}

// Tell serves this frontend's own figures to its siblings until stop is called.
func (m *Metrics) Tell() (stop func(), err error) {
	socket := m.cfg.Socket
	if socket == "" {
		return func() {}, nil
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a predecessor that was killed
		return nil, err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("metrics for the other frontends: %w", err)
	}
	server := &http.Server{Handler: promhttp.HandlerFor(m.own, promhttp.HandlerOpts{}), ReadHeaderTimeout: siblingTimeout}
	ended := make(chan struct{})
	go func() { // ended by stop
		defer close(ended)
		_ = server.Serve(listener)
	}()
	return func() { server.Close(); <-ended }, nil
}
