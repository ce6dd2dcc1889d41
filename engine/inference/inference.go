// Package inference answers requests of tensors: it makes a job of the pool of a request, its pictures decoded, and of
// the job's result the answer; and it says what models take. It knows no HTTP.
package inference

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/images"
	"github.com/prefillonly/prefillonly/engine/oip"
	"github.com/prefillonly/prefillonly/engine/request"
	"github.com/prefillonly/prefillonly/internal/budget"
	"github.com/prefillonly/prefillonly/internal/processors"
)

// Config is how requests are answered. The zero value of a size means its default.
type Config struct {
	MaxInputs  int              // bytes of a request's tensors; default 64 MiB
	Memory     int64            // bytes that the making of inputs may take at a time, of all requests; default inputsBudget times MaxInputs
	Processors *processors.Pool // which make them; default: this process's
}

// answeringWeight is how many answers count for what the next one will take, and answeringMost what one counts at most: a client
// that takes its answer in slowly must not make others late.
const (
	answeringWeight = 8
	answeringMost   = 50 * time.Millisecond
)

// inputsBudget is how many requests of the greatest size may have their inputs made at a time.
const inputsBudget = 8

// Service answers requests by jobs of a pool. Its methods are safe for concurrent use.
type Service struct {
	// set once
	cfg Config

	memory *budget.Budget // Config.Memory

	answering sync.Map // by model: *atomic.Int64, nanoseconds that the making of answers took of late
}

// New makes a Service.
func New(cfg Config) *Service {
	if cfg.MaxInputs == 0 {
		cfg.MaxInputs = 64 << 20
	}
	if cfg.Memory == 0 {
		cfg.Memory = inputsBudget * int64(cfg.MaxInputs)
	}
	if cfg.Processors == nil {
		cfg.Processors = processors.Shared()
	}
	return &Service{cfg: cfg, memory: budget.New(cfg.Memory)}
}

// newRequestError says what is wrong with a request.
func newRequestError(format string, args ...any) error { return api.Invalid("", format, args...) }

// About how long an input takes that is not simply there: each byte of JSON, and each pixel of a picture.
const (
	jsonPace  = 10 * time.Nanosecond
	pixelPace = 15 * time.Nanosecond
)

// holdMemory counts memory of the call.
func (c *Call) holdMemory(bytes int64) error {
	switch full := c.Hold(c.s.memory, bytes, 1); {
	case full != nil && full.Never:
		return newRequestError("making the inputs takes too many bytes of memory: %v; send less at a time", full)
	case full != nil:
		return engine.Errorf(engine.CodeOverloaded, "making the inputs takes bytes of memory: %v; come back later", full)
	}
	return nil
}

// Prepare reads a body: header bytes of JSON and the binary data behind it, as oip.Decode takes them; with a header of 0 the
// data of the only input. Pictures become the model's input as image says. Its errors, as those of Call's methods, are those
// of request.Call. The body must stay as it is until Submit has returned.
func (s *Service) Prepare(ctx context.Context, from *request.Call, image images.Options, body []byte, header int) (*Call, error) {
	from.Record.Frames = &request.Frames{}
	from.Answering = time.Duration(s.answeringTime(from.Model).Load())
	c := &Call{Call: from, s: s, image: image, begun: time.Now(), data: body}
	if header == 0 {
		return c, nil
	}
	if err := c.decodeBody(ctx, body, header); err != nil {
		return nil, err
	}
	if limit := c.body.Timeout; limit > 0 && (c.Deadline == 0 || limit < c.Deadline) {
		c.Deadline = limit
	}
	return c, nil
}

func (s *Service) answeringTime(model string) *atomic.Int64 {
	v, known := s.answering.Load(model)
	if !known {
		v, _ = s.answering.LoadOrStore(model, new(atomic.Int64))
	}
	return v.(*atomic.Int64)
}

// NoteWritten tells how long the making and sending of the answer took: the deadlines of the next ones are sooner by about that
// for devices.
func (c *Call) NoteWritten(took time.Duration) {
	c.Record.Frames.Written = took
	of := c.s.answeringTime(c.Model)
	of.Store(of.Load() + (int64(min(took, answeringMost))-of.Load())/answeringWeight)
}

// decodeBody reads a body that begins with JSON.
func (c *Call) decodeBody(ctx context.Context, body []byte, header int) error {
	text := len(body)
	if header > 0 {
		text = min(header, text)
	}
	return c.RunStage(ctx, c.s.cfg.Processors, processors.Stage{Kind: "tensors", Takes: time.Duration(text) * jsonPace}, func() (err error) {
		c.Record.Memory += int64(2 * text) // about what numbers become
		if c.body, err = oip.Decode(body, header, c.s.cfg.MaxInputs); err != nil {
			return newRequestError("%v", err)
		}
		return nil
	})
}
