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

// sourceTimeout bounds one question to another process, which may stand still.
const sourceTimeout = 2 * time.Second

// source is another process that tells its metrics on a socket.
type source struct {
	client *http.Client
	header http.Header // that says who asks; nil: it tells everyone the same
}

func newSource(socket string) *source {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	return &source{client: &http.Client{Timeout: sourceTimeout, Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}
}

// askedBy is the source as it tells who a header names.
func (s *source) askedBy(header http.Header) *source { return &source{s.client, header} }

// newSources are the processes at sockets, but for the one at own and those without one.
func newSources(own string, sockets ...string) (all prometheus.Gatherers) {
	for _, socket := range sockets {
		if socket != own && socket != "" {
			all = append(all, newSource(socket))
		}
	}
	return all
}

// Gather implements prometheus.Gatherer. A process that is dead or stands still has nothing to tell; it
// is started again, and its counters begin anew.
func (s *source) Gather() ([]*dto.MetricFamily, error) {
	request, err := http.NewRequest(http.MethodGet, "http://process/metrics", nil)
	if err != nil {
		return nil, err
	}
	for name, values := range s.header {
		request.Header[name] = values
	}
	request.Header.Set("Accept", string(expfmt.NewFormat(expfmt.TypeProtoDelim))) // which has exemplars
	response, err := s.client.Do(request)
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
	server := &http.Server{Handler: promhttp.HandlerFor(m.own, promhttp.HandlerOpts{}), ReadHeaderTimeout: sourceTimeout}
	ended := make(chan struct{})
	go func() { // ended by stop
		defer close(ended)
		_ = server.Serve(listener)
	}()
	return func() { server.Close(); <-ended }, nil
}
