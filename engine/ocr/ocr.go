// Package ocr reads the text of pictures by three networks: one finds lines, one says which of them are upside down, and one recognizes
// symbols. What is before, between and behind their passes is pure and here; a Service has models of the pool run them. It knows no HTTP.
package ocr

import (
	"cmp"
	"context"
	"errors"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/pipeline"
	"github.com/prefillonly/prefillonly/engine/request"
	"github.com/prefillonly/prefillonly/internal/budget"
	"github.com/prefillonly/prefillonly/internal/processors"
)

// Config is how requests are answered. The zero value means the defaults.
type Config struct {
	Memory     int64            // bytes that pictures and what is made of them may take at a time, of all requests; default 2 GiB
	Processors *processors.Pool // which make them; default: this process's
}

// Service answers requests by jobs of a pool. Its methods are safe for concurrent use.
type Service struct{ shared pipeline.Service }

// New makes a Service.
func New(cfg Config) *Service {
	return &Service{pipeline.Service{
		Processors: cmp.Or(cfg.Processors, processors.Shared()), Memory: budget.New(cmp.Or(cfg.Memory, 2<<30)), Subject: pipeline.Subject{Field: "image", What: "the picture"},
	}}
}

// Call is one request on its way. One goroutine uses it. Its errors are those of request.Call.
type Call struct {
	*pipeline.Call

	pipeline Pipeline
	picture  []byte
	lines    []Line
}

// Call makes a Call for the text of a picture by a pipeline, whose networks have these names in the pool.
func (s *Service) Call(from *request.Call, p Pipeline, networks map[string]string, picture []byte) *Call {
	_, p.Directs = networks[Direct]
	return &Call{Call: s.shared.Call(from, networks), pipeline: p, picture: picture}
}

// Run reads the picture, until the deadline.
func (c *Call) Run(ctx context.Context) error {
	ctx, cancel := c.LimitTime(ctx)
	defer cancel()
	lines, err := c.pipeline.Read(ctx, c.Call, c.picture)
	var wrong *PictureError
	switch {
	case errors.As(err, &wrong):
		return api.Invalid("image", "image of %d bytes: %v", len(c.picture), wrong)
	case err != nil:
		return err
	}
	c.lines, c.Record.Finish = lines, engine.FinishStop.String()
	return nil
}

// Lines are those that were found.
func (c *Call) Lines() []Line { return c.lines }
