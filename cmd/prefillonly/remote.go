package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/prefillonly/prefillonly/cmd/prefillonly/merge"
	"github.com/prefillonly/prefillonly/engine/apikey"
	"github.com/prefillonly/prefillonly/internal/cli"
)

// remote is a running server that a command asks.
type remote struct {
	base, key string
	client    http.Client
}

// openRemote checks what is said of a server, whose answers are waited for for so long. The key is in a file, or in PREFILLONLY_API_KEY.
func openRemote(address, keyFile string, patience time.Duration) (*remote, error) {
	at, err := url.Parse(address)
	switch {
	case err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https":
		return nil, cli.UsageError("invalid address %q of a server: want http://HOST:PORT", address)
	case at.User != nil:
		return nil, cli.UsageError("a key in the address is seen by all users of this machine; give it by --api-key-file or PREFILLONLY_API_KEY")
	}
	key, err := apikey.Sent(keyFile, os.Getenv("PREFILLONLY_API_KEY"))
	if err != nil {
		return nil, cli.Exit(cli.ExitConfig, err)
	}
	return &remote{strings.TrimSuffix(address, "/"), key, http.Client{Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // a key is for this server alone
	}}}, nil
}

// get asks for a path.
func (r *remote) get(ctx context.Context, path string, most int64) ([]byte, error) {
	return r.ask(ctx, http.MethodGet, path, "", nil, most)
}

// post sends a body of a type.
func (r *remote) post(ctx context.Context, path, contentType string, body []byte, most int64) ([]byte, error) {
	return r.ask(ctx, http.MethodPost, path, contentType, bytes.NewReader(body), most)
}

// ask is what the server answers, of no more than most bytes. An error is what it says is wrong, without what would steer a terminal.
func (r *remote) ask(ctx context.Context, method, path, contentType string, body io.Reader, most int64) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, r.base+path, body)
	if err != nil {
		return nil, err
	}
	if r.key != "" {
		request.Header.Set("Authorization", "Bearer "+r.key)
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := r.client.Do(request)
	if err != nil {
		return nil, r.explainSilence(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, most))
	if err != nil {
		return nil, r.explainSilence(err)
	}
	if response.StatusCode == http.StatusOK {
		return answer, nil
	}
	return nil, r.explainRefusal(path, response.StatusCode, answer)
}

func (r *remote) explainRefusal(path string, status int, answer []byte) error {
	var said struct{ Error struct{ Message string } }
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return errors.New("the server asks for an API key: name a file with it by --api-key-file, or set PREFILLONLY_API_KEY")
	case json.Unmarshal(answer, &said) == nil && said.Error.Message != "":
		return errors.New(cleanText(said.Error.Message))
	}
	return fmt.Errorf("%s%s answers %d %s; is this a prefillonly server of this version?", r.base, path, status, http.StatusText(status))
}

// explainSilence says what to do about a server that does not answer.
func (r *remote) explainSilence(err error) error {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nothing listens at %s: start a server with `prefillonly serve`, or give another address", r.base)
	case os.IsTimeout(err):
		return fmt.Errorf("%s has not answered for %v: see whether its host is overloaded, or the address another's", r.base, r.client.Timeout)
	}
	return errors.New(cleanText(err.Error())) // it may have words of a stranger
}

// openStreams opens a server whose streams are looked at.
func openStreams(address, keyFile string) (merge.Get, error) {
	server, err := openRemote(address, keyFile, streamTimeout)
	if err != nil {
		return nil, err
	}
	return server.get, nil
}

// streamTimeout is for one picture.
const streamTimeout = 30 * time.Second
