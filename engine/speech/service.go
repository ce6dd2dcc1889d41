package speech

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
	Memory     int64            // bytes that sounds may take at a time, of all requests; default 1 GiB
	Processors *processors.Pool // which decode them; default: this process's
}

// Service answers requests by jobs of a pool. Its methods are safe for concurrent use.
type Service struct{ shared pipeline.Service }

// New makes a Service.
func New(cfg Config) *Service {
	return &Service{pipeline.Service{
		Processors: cmp.Or(cfg.Processors, processors.Shared()), Memory: budget.New(cmp.Or(cfg.Memory, 1<<30)), Subject: pipeline.Subject{Field: "file", What: "the sound"},
	}}
}

// Call is one request on its way. One goroutine uses it. Its errors are those of request.Call.
type Call struct {
	*pipeline.Call

	pipeline *Pipeline
	sound    []float32
	heard    *Transcript
}

// Call makes a Call for the text of sound by a pipeline, whose networks have these names in the pool.
func (s *Service) Call(from *request.Call, p *Pipeline, networks map[string]string) *Call {
	_, p.CutsSilence = networks[Silence]
	return &Call{Call: s.shared.Call(from, networks), pipeline: p}
}

// Read decodes the file of the sound, until the deadline; nothing of it is kept.
func (c *Call) Read(ctx context.Context, file []byte) (err error) {
	ctx, cancel := c.LimitTime(ctx)
	defer cancel()
	c.sound, err = c.pipeline.Read(ctx, c.Call, file)
	var wrong *FileError
	if errors.As(err, &wrong) {
		return api.Invalid("file", "file of %d bytes: %v", len(file), wrong)
	}
	return err
}

// Run hears what was read, until the deadline.
func (c *Call) Run(ctx context.Context) (err error) {
	ctx, cancel := c.LimitTime(ctx)
	defer cancel()
	if c.heard, err = c.pipeline.Hear(ctx, c.Call, c.sound); err == nil {
		c.Record.Finish = engine.FinishStop.String()
	}
	return err
}

// Transcript is what was heard.
func (c *Call) Transcript() *Transcript { return c.heard }
