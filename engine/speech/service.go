package speech

import (
	"context"
	"errors"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/request"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/budget"
	"github.com/prefillonly/prefillonly/internal/processors"
)

// Config is how requests are answered. The zero value means the defaults.
type Config struct {
	Memory     int64            // bytes that sounds may take at a time, of all requests; default 1 GiB
	Processors *processors.Pool // which decode them; default: this process's
}

// Service answers requests by jobs of a pool. Its methods are safe for concurrent use.
type Service struct {
	processors *processors.Pool
	memory     *budget.Budget
}

// New makes a Service.
func New(cfg Config) *Service {
	if cfg.Memory == 0 {
		cfg.Memory = 1 << 30
	}
	if cfg.Processors == nil {
		cfg.Processors = processors.Shared()
	}
	return &Service{processors: cfg.Processors, memory: budget.New(cfg.Memory)}
}

// Call is one request on its way. One goroutine uses it. Its errors are those of request.Call.
type Call struct {
	*request.Call

	s        *Service
	pipeline *Pipeline
	sound    []float32
	heard    *Transcript
}

// Call makes a Call for the text of sound.
func (s *Service) Call(from *request.Call, p *Pipeline) *Call {
	from.Record.Frames = &request.Frames{}
	return &Call{Call: from, s: s, pipeline: p}
}

// Read decodes the file of the sound, until the deadline; nothing of it is kept.
func (c *Call) Read(ctx context.Context, file []byte) (err error) {
	ctx, cancel := c.LimitTime(ctx)
	defer cancel()
	c.sound, err = c.pipeline.Read(ctx, (*host)(c), file)
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
	if c.heard, err = c.pipeline.Hear(ctx, (*host)(c), c.sound); err == nil {
		c.Record.Finish = engine.FinishStop.String()
	}
	return err
}

// Transcript is what was heard.
func (c *Call) Transcript() *Transcript { return c.heard }

// host is a Call as a pipeline's.
type host Call

// Do implements Host.
func (h *host) Do(ctx context.Context, s processors.Stage, f func() error) error {
	begun := time.Now()
	err := h.RunStage(ctx, h.s.processors, s, f)
	h.Record.Frames.Prepared += time.Since(begun)
	return err
}

// Hold implements Host.
func (h *host) Hold(bytes int64) error {
	switch full := h.Call.Hold(h.s.memory, bytes, 1); {
	case full != nil && full.Never:
		return api.Invalid("file", "the sound takes too many bytes of memory: %v; send a shorter one", full)
	case full != nil:
		return engine.Errorf(engine.CodeOverloaded, "the sound takes bytes of memory: %v; come back later", full)
	}
	return nil
}

// Limits implements Host.
func (h *host) Limits(ctx context.Context) (limits *wire.TensorLimits, err error) {
	err = h.AdmitTensors(ctx, h.Model, func(l *wire.TensorLimits) error {
		limits = l
		return nil
	})
	return limits, err
}

// Plan implements Host.
func (h *host) Plan(units float64) (takes time.Duration, err error) {
	return h.PlanTensors(h.Model, units)
}

// Infer implements Host.
func (h *host) Infer(ctx context.Context, outputs []string, inputs [][]Tensor, accept func(i int, outputs []Tensor) error) error {
	first := h.Jobs()
	err := h.AdmitTensors(ctx, h.Model, func(limits *wire.TensorLimits) error {
		for _, in := range inputs {
			if err := h.addJob(limits, outputs, in); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	h.Together()
	if err := h.Submit(); err != nil {
		return err
	}
	h.Record.Frames.Count += float64(len(inputs))
	return h.Wait(ctx, func(d client.Delivery) error {
		out, ok := d.Result.Output.(*engine.TensorOutput)
		if !ok || len(out.Outputs) != len(d.Outputs) {
			return engine.Errorf(engine.CodeInternal, "the result of the job has %d tensors in a %T", len(d.Outputs), d.Result.Output)
		}
		tensors := make([]Tensor, len(d.Outputs))
		for i, o := range out.Outputs {
			tensors[i] = Tensor{o.Name, o.Type, o.Shape, d.Outputs[i]}
		}
		return accept(d.Index-first, tensors)
	})
}

// addJob makes the job of some inputs.
func (h *host) addJob(limits *wire.TensorLimits, outputs []string, inputs []Tensor) error {
	work, elements := &engine.Tensors{Outputs: outputs}, 0
	var data [][]byte
	for _, in := range inputs {
		work.Inputs = append(work.Inputs, engine.Ref{Name: in.Name, Type: in.Type, Shape: in.Shape})
		data, elements = append(data, in.Data), elements+len(in.Data)/in.Type.Size()
	}
	work.Frames = limits.Units(1, float64(elements), false)
	return h.AddTensors(engine.Job{Work: work}, data)
}
