// Package load loads servers at steady times, whatever the answers take: it makes the paper's two workloads and one of short prompts
// at any scale (the same seed gives the same bytes), reads and writes traces of requests, sends them to an OpenAI-compatible server, and frames of
// cameras to one of the Open Inference Protocol. Everything is measured from the moment it was due.
package load

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prefillonly/prefillonly/engine"
)

// Options say where and how requests are sent.
type Options struct {
	BaseURL        string // http://host:port, with or without a trailing /v1
	Model          string // empty: the first model the server lists
	APIKey         string // empty: no Authorization header
	Timeout        time.Duration
	MaxConcurrency int  // 0: open loop, no bound on the requests in flight
	Text           bool // synthetic prompts are sent as words rather than token ids
	Vocabulary     Vocabulary
}

// Record is what became of one request. Times are counted from the start of the run.
type Record struct {
	Index     int    // in the trace
	Model     string // of the trace; may be empty
	User      string
	Scheduled time.Duration // when it was due
	Sent      time.Duration // when the client began to send it
	FirstByte time.Duration // of the answer; 0 if none came
	Done      time.Duration // when the answer was read, or the request failed
	Status    int           // HTTP status; 0 if no answer came
	Tokens    int           // prompt tokens, as the server counts them
	Cached    int           // of them found in the prefix cache
	Err       string        // why it failed; empty if it was answered with 200
}

// Latency is the time from when the request was due to its answer. A client that falls behind its
// schedule, or a server that stalls, thus cannot hide the wait of the requests behind it
// (coordinated omission).
func (r Record) Latency() time.Duration { return r.Done - r.Scheduled }

// Client sends requests to one server.
type Client struct {
	options Options
	base    *url.URL
	http    *http.Client
	observe func(Record) // may be nil
}

// New checks the options and makes a Client.
func New(o Options) (*Client, error) {
	base, err := parseBaseURL(o.BaseURL)
	if err != nil {
		return nil, err
	}
	base.Path = strings.TrimSuffix(base.Path, "/v1")
	if o.Vocabulary == (Vocabulary{}) {
		o.Vocabulary = DefaultVocabulary
	}
	if o.Vocabulary.High <= o.Vocabulary.Low {
		return nil, fmt.Errorf("empty vocabulary [%d, %d)", o.Vocabulary.Low, o.Vocabulary.High)
	}
	if o.MaxConcurrency < 0 {
		return nil, fmt.Errorf("invalid max concurrency %d: want 0 or more", o.MaxConcurrency)
	}
	return &Client{options: o, base: base, http: newHTTPClient(o.Timeout)}, nil
}

// parseBaseURL reads the address of a server, of which what ends in a slash ends without it.
func parseBaseURL(text string) (*url.URL, error) {
	base, err := url.Parse(text)
	if err != nil || (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" {
		return nil, fmt.Errorf("invalid base URL %q: want http://host:port", text)
	}
	base.Path = strings.TrimSuffix(base.Path, "/")
	return base, nil
}

// newHTTPClient makes a client without a bound on connections.
func newHTTPClient(timeout time.Duration) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns = 0 // no bound
	transport.MaxIdleConnsPerHost = 1 << 16
	transport.DisableCompression = true
	return &http.Client{Transport: transport, Timeout: timeout}
}

// Close drops the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Observing returns a Client on the same connections whose Run calls observe after each request, from
// one goroutine at a time.
func (c *Client) Observing(observe func(Record)) *Client {
	other := *c
	other.observe = observe
	return &other
}

// Connect asks the server for its models, so that a wrong address or key is known before the run,
// and returns the name that requests will carry.
func (c *Client) Connect(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base.JoinPath("v1", "models").String(), nil)
	if err != nil {
		return "", err
	}
	response, err := c.sendAuthorized(request)
	if err != nil {
		return "", fmt.Errorf("no server answers at %s (%s): start one with `prefillonly serve`, or correct the base URL", c.base, transportCause(err))
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return "", fmt.Errorf("read %s/v1/models: %w", c.base, err)
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s/v1/models answers %s: %s", c.base, response.Status, errorReason(body))
	}
	if c.options.Model != "" {
		return c.options.Model, nil
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &list); err != nil || len(list.Data) == 0 {
		return "", fmt.Errorf("%s/v1/models lists no model: name one", c.base)
	}
	c.options.Model = list.Data[0].ID
	return c.options.Model, nil
}

// Run sends all requests and returns their records in the order of the trace. Without
// MaxConcurrency each is sent at its time, however many are open. With it a request also waits for
// a free place; in a trace whose requests are all due at once this makes a closed loop, and a
// request then counts as due when its place is free. A cancelled context ends the run early: the
// requests sent so far are returned with the context's error.
func (c *Client) Run(ctx context.Context, requests []Request) ([]Record, error) {
	if len(requests) == 0 {
		return nil, nil
	}
	closed := c.options.MaxConcurrency > 0 && requests[len(requests)-1].At == 0
	places := make(chan struct{}, max(1, c.options.MaxConcurrency))
	records := make([]Record, len(requests))
	var senders sync.WaitGroup // every sender ends within Timeout, or when ctx does
	var observing sync.Mutex
	start := time.Now()
	sent := 0
	for i, q := range requests {
		body, err := c.encodeBody(q)
		if err != nil {
			return nil, fmt.Errorf("request %d: %w", i, err)
		}
		if !sleepContext(ctx, time.Until(start.Add(q.At))) || !c.takePlace(ctx, places) {
			break
		}
		record := &records[i]
		*record = Record{Index: i, Model: q.Model, User: q.User, Scheduled: q.At}
		if closed {
			record.Scheduled = time.Since(start)
		}
		sent++
		senders.Go(func() {
			c.sendRequest(ctx, start, body, record)
			if c.options.MaxConcurrency > 0 {
				<-places
			}
			if c.observe != nil {
				observing.Lock()
				defer observing.Unlock()
				c.observe(*record)
			}
		})
	}
	senders.Wait()
	return records[:sent], ctx.Err()
}

// sleepContext reports whether the context outlived the wait.
func sleepContext(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

func (c *Client) takePlace(ctx context.Context, places chan struct{}) bool {
	if c.options.MaxConcurrency == 0 {
		return true
	}
	select {
	case places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

type completion struct {
	Model       string           `json:"model"`
	Prompt      any              `json:"prompt"`
	MaxTokens   int              `json:"max_tokens"`
	Temperature float64          `json:"temperature"`
	User        string           `json:"user,omitempty"`
	Allowed     []engine.TokenID `json:"allowed_token_ids,omitempty"`
}

func (c *Client) encodeBody(q Request) ([]byte, error) {
	r := completion{Model: cmp.Or(q.Model, c.options.Model), MaxTokens: q.MaxTokens, User: q.User, Allowed: q.Allowed}
	switch {
	case q.Prompt.Text != "":
		r.Prompt = q.Prompt.Text
	case len(q.Prompt.Tokens) > 0:
		r.Prompt = q.Prompt.Tokens
	case c.options.Text:
		r.Prompt = q.Prompt.Shape.Words()
	default:
		r.Prompt = q.Prompt.Shape.TokenIDs(c.options.Vocabulary)
	}
	return json.Marshal(r)
}

// sendRequest fills in the record.
func (c *Client) sendRequest(ctx context.Context, start time.Time, body []byte, r *Record) {
	var first atomic.Int64 // written by the connection's goroutine, which a timeout does not wait for
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotFirstResponseByte: func() { first.Store(int64(time.Since(start))) },
	})
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base.JoinPath("v1", "completions").String(), bytes.NewReader(body))
	if err != nil {
		r.Err = err.Error()
		return
	}
	request.Header.Set("Content-Type", "application/json")
	r.Sent = time.Since(start)
	response, err := c.sendAuthorized(request)
	if err != nil {
		r.Done, r.Err = time.Since(start), transportCause(err)
		return
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	r.FirstByte, r.Done, r.Status = time.Duration(first.Load()), time.Since(start), response.StatusCode
	switch {
	case err != nil:
		r.Err = transportCause(err)
	case r.Status != http.StatusOK:
		r.Err = errorReason(answer)
	default:
		r.Err = r.readUsage(answer)
	}
}

func (r *Record) readUsage(answer []byte) string {
	var a struct {
		Usage struct {
			PromptTokens int `json:"prompt_tokens"`
			Details      struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return "the answer is not JSON: " + err.Error()
	}
	r.Tokens, r.Cached = a.Usage.PromptTokens, a.Usage.Details.Cached
	return ""
}

func (c *Client) sendAuthorized(request *http.Request) (*http.Response, error) {
	if c.options.APIKey != "" {
		request.Header.Set("Authorization", "Bearer "+c.options.APIKey)
	}
	return c.http.Do(request)
}

// transportCause is the part of a transport error that says what happened.
func transportCause(err error) string {
	var network *net.OpError
	var request *url.Error
	switch {
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.As(err, &request) && request.Timeout():
		return "timeout"
	case errors.As(err, &network):
		return network.Err.Error()
	case errors.As(err, &request):
		return request.Err.Error()
	}
	return err.Error()
}

// errorReason is the message of an OpenAI error body, or the body's beginning.
func errorReason(body []byte) string {
	var e struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &e) == nil && e.Error.Message != "" {
		return e.Error.Message
	}
	return string(body[:min(len(body), 200)])
}
