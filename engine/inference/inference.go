// Package inference answers requests of tensors: it makes a job of the pool of a request, its pictures decoded, and of
// the job's result the answer; and it says what models take. It knows no HTTP.
package inference

import (
	"context"
	"fmt"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/images"
	"github.com/prefillonly/prefillonly/engine/oip"
	"github.com/prefillonly/prefillonly/internal/budget"
	"github.com/prefillonly/prefillonly/internal/processors"
)

// Config is how requests are answered. The zero value of a size means its default.
type Config struct {
	MaxInputs  int              // bytes of a request's tensors; default 64 MiB
	Memory     int64            // bytes that the making of inputs may take at a time, of all requests; default inputsBudget times MaxInputs
	Processors *processors.Pool // which make them; default: this process's
}

// inputsBudget is how many requests of the greatest size may have their inputs made at a time.
const inputsBudget = 8

// Service answers requests by jobs of a pool. Its methods are safe for concurrent use.
type Service struct {
	// set once
	cfg  Config
	pool *client.Client

	memory *budget.Budget // Config.Memory
}

// New makes a Service.
func New(cfg Config, pool *client.Client) *Service {
	if cfg.MaxInputs == 0 {
		cfg.MaxInputs = 64 << 20
	}
	if cfg.Memory == 0 {
		cfg.Memory = inputsBudget * int64(cfg.MaxInputs)
	}
	if cfg.Processors == nil {
		cfg.Processors = processors.Shared()
	}
	return &Service{cfg: cfg, pool: pool, memory: budget.New(cfg.Memory)}
}

// Origin is what is known of a request beside its body.
type Origin struct {
	Arrived  time.Time
	Model    string // the pool's name of the model
	Name     string // the one by which the request asks for it
	User     string // key of fairness and routing
	Holder   string // whose share of what requests may hold it takes; empty: the server's
	Deadline time.Duration
	Salt     func(stream string) string // keeps the streams of strangers apart
	Image    images.Options             // of the model's pictures
	Memory   *int64                     // counts the bytes that inputs take beyond the body; may be nil
}

// RequestError is what is wrong with a request.
type RequestError struct{ err error }

func (e *RequestError) Error() string { return e.err.Error() }

func newRequestError(format string, args ...any) error {
	return &RequestError{fmt.Errorf(format, args...)}
}

// About how long an input takes that is not simply there: each byte of JSON, and each pixel of a picture.
const (
	jsonPace  = 10 * time.Nanosecond
	pixelPace = 15 * time.Nanosecond
)

// holdMemory counts memory of the call.
func (c *Call) holdMemory(bytes int64) error {
	switch full := c.s.memory.Hold(c.from.Holder, bytes); {
	case full != nil && full.Never:
		return newRequestError("making the inputs takes too many bytes of memory: %v; send less at a time", full)
	case full != nil:
		return engine.Errorf(engine.CodeOverloaded, "making the inputs takes bytes of memory: %v; come back later", full)
	}
	c.held += bytes
	return nil
}

// giveBack counts memory of the call no more.
func (c *Call) giveBack(bytes int64) {
	c.s.memory.Release(c.from.Holder, bytes)
	c.held -= bytes
}

// New makes a Call of a body: header bytes of JSON and the binary data behind it, as oip.Decode takes them; with a
// header of 0 the data of the only input. Its errors, as those of Call's methods, are a *RequestError, an *engine.Error,
// and why ctx has ended. The body must stay as it is until Submit has returned.
func (s *Service) New(ctx context.Context, from Origin, body []byte, header int) (*Call, error) {
	c := &Call{s: s, from: from, begun: time.Now(), results: client.NewResults()}
	if header != 0 {
		if err := c.decodeBody(ctx, body, header); err != nil {
			return nil, err
		}
	}
	c.limitTime(ctx)
	if err := c.prepareJob(body); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// prepareJob makes the job.
func (c *Call) prepareJob(body []byte) error {
	served, err := c.s.pool.Model(c.ctx, c.from.Model)
	if err != nil {
		return err
	}
	if served.Tensors == nil {
		return newRequestError("the model %s takes tokens, not tensors; ask it at /v1/completions", c.from.Name)
	}
	if c.request == nil {
		if c.request, err = rawRequest(served.Tensors, body); err != nil {
			return err
		}
	}
	return c.makeJob(served.Tensors)
}

// decodeBody reads a body that begins with JSON.
func (c *Call) decodeBody(ctx context.Context, body []byte, header int) error {
	text := len(body)
	if header > 0 {
		text = min(header, text)
	}
	_, err := c.s.cfg.Processors.Do(ctx, processors.Stage{Kind: "tensors", Takes: time.Duration(text) * jsonPace}, func() (err error) {
		c.countMemory(int64(2 * text)) // about what numbers become
		if c.request, err = oip.Decode(body, header, c.s.cfg.MaxInputs); err != nil {
			return &RequestError{err}
		}
		return nil
	})
	return err
}

// countMemory counts memory that the call takes.
func (c *Call) countMemory(bytes int64) {
	if c.from.Memory != nil {
		*c.from.Memory += bytes
	}
}

// errLate ends what its deadline has passed for.
func errLate(deadline time.Duration) error {
	return engine.Errorf(engine.CodeDeadline, "the deadline of %v has passed", deadline)
}
