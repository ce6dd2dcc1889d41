package top

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/prefillonly/prefillonly/internal/gauges"
)

const (
	answerTimeout = 5 * time.Second
	answerBytes   = 64 << 20 // of /metrics with a thousand models
)

// server is the one that is looked at.
type server struct {
	base, key string
	client    http.Client
}

// reading is what a server told at a time, or why it did not.
type reading struct {
	sample  *gauges.Sample
	healthy bool
	reason  string
	err     error
}

func newServer(base, key string) *server {
	return &server{base: strings.TrimSuffix(base, "/"), key: key, client: http.Client{Timeout: answerTimeout, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // a key is for this server alone
	}}}
}

// read asks for health and metrics.
func (s *server) read(ctx context.Context) (r reading) {
	var health struct{ Reason string }
	text, status, err := s.getPath(ctx, "/health")
	if err != nil {
		return reading{err: s.explainError(err)}
	}
	r.healthy = status == http.StatusOK
	if json.Unmarshal([]byte(text), &health) == nil {
		r.reason = health.Reason
	}
	text, status, err = s.getPath(ctx, "/metrics")
	switch {
	case err != nil:
		r.err = s.explainError(err)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		r.err = errors.New("the server asks for an API key: name a file with it by --api-key-file, or set PREFILLONLY_API_KEY")
	case status != http.StatusOK:
		r.err = fmt.Errorf("%s/metrics answers %d %s; is this a prefillonly server?", s.base, status, http.StatusText(status))
	default:
		r.sample, r.err = gauges.Read(strings.NewReader(text), time.Now())
	}
	return r
}

func (s *server) getPath(ctx context.Context, path string) (text string, status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+path, nil)
	if err != nil {
		return "", 0, err
	}
	request.Header.Set("Accept", "text/plain;version=0.0.4, application/json")
	if s.key != "" {
		request.Header.Set("Authorization", "Bearer "+s.key)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return "", 0, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, answerBytes+1))
	if err == nil && len(body) > answerBytes {
		err = fmt.Errorf("%s answers with more than %d MiB", path, answerBytes>>20)
	}
	return string(body), response.StatusCode, err
}

// explainError says what to do about a server that does not answer.
func (s *server) explainError(err error) error {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nothing listens at %s: start a server with `prefillonly serve`, or give another address: prefillonly top http://HOST:PORT", s.base)
	case os.IsTimeout(err):
		return fmt.Errorf("%s has not answered for %v: see whether its host is overloaded, or the address another's", s.base, answerTimeout)
	}
	return fmt.Errorf("%s cannot be asked: %w", s.base, err)
}
