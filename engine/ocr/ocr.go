// Package ocr reads the text of pictures by three networks: one finds lines, one says which of them are upside down, and one recognizes
// symbols. What is before, between and behind their passes is pure and here; a Service makes jobs of the pool of it. It knows no HTTP.
package ocr

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	Memory     int64            // bytes that pictures and what is made of them may take at a time, of all requests; default 2 GiB
	Processors *processors.Pool // which make them; default: this process's
}

// Service answers requests by jobs of a pool. Its methods are safe for concurrent use.
type Service struct {
	processors *processors.Pool
	memory     *budget.Budget
}

// New makes a Service.
func New(cfg Config) *Service {
	if cfg.Memory == 0 {
		cfg.Memory = 2 << 30
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
	pipeline Pipeline
	networks map[string]string // the pool's names
	picture  []byte
	lines    []Line
}

// Call makes a Call for the text of a picture by a pipeline, whose networks have these names in the pool.
func (s *Service) Call(from *request.Call, p Pipeline, networks map[string]string, picture []byte) *Call {
	from.Record.Frames = &request.Frames{}
	_, p.Directs = networks[Direct]
	return &Call{Call: from, s: s, pipeline: p, networks: networks, picture: picture}
}

// Run reads the picture, until the deadline.
func (c *Call) Run(ctx context.Context) error {
	ctx, cancel := c.LimitTime(ctx)
	defer cancel()
	lines, err := c.pipeline.Read(ctx, (*host)(c), c.picture)
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

// host is a Call as a pipeline's.
type host Call

// Do implements Host.
func (h *host) Do(ctx context.Context, s processors.Stage, f func() error) error {
	begun := time.Now()
	err := h.RunStage(ctx, h.s.processors, s, f)
	h.Record.Frames.Prepared += time.Since(begun)
	return err
}

// Plan implements Host.
func (h *host) Plan(ctx context.Context, network string, input []int) (takes time.Duration, err error) {
	elements := 1
	for _, n := range input {
		elements *= n
	}
	err = h.AdmitTensors(ctx, h.networks[network], func(limits *wire.TensorLimits) error {
		takes, err = h.PlanTensors(h.networks[network], limits.Units(1, float64(elements), false))
		return err
	})
	return takes, err
}

// Hold implements Host.
func (h *host) Hold(bytes int64) error {
	switch full := h.Call.Hold(h.s.memory, bytes, 1); {
	case full != nil && full.Never:
		return api.Invalid("image", "reading the picture takes too many bytes of memory: %v; send a smaller one", full)
	case full != nil:
		return engine.Errorf(engine.CodeOverloaded, "reading the picture takes bytes of memory: %v; come back later", full)
	}
	return nil
}

// Release implements Host.
func (h *host) Release(bytes int64) { h.Call.Release(h.s.memory, bytes) }

// Infer implements Host.
func (h *host) Infer(ctx context.Context, network string, inputs []Tensor, accept func(i int, outputs []Tensor) error) error {
	first, model := h.Jobs(), h.networks[network]
	err := h.AdmitTensors(ctx, model, func(limits *wire.TensorLimits) error {
		outputs, err := wantedOutputs(network, model, limits)
		if err != nil {
			return err
		}
		for i := range inputs {
			in := &inputs[i]
			work := &engine.Tensors{Inputs: []engine.Ref{{Name: limits.Inputs[0].Name, Type: engine.FP32, Shape: in.Shape}}, Outputs: outputs}
			work.Frames = limits.Units(1, float64(len(in.Data)/4), false)
			if err := h.AddTensors(engine.Job{Model: model, Work: work}, [][]byte{in.Data}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || len(inputs) == 0 {
		return err
	}
	h.Together()
	if err := h.Submit(); err != nil {
		return err
	}
	h.Record.Frames.Count += float64(len(inputs))
	return h.Wait(ctx, func(d client.Delivery) error {
		out, ok := d.Result.Output.(*engine.TensorOutput)
		if !ok || len(out.Outputs) != len(d.Outputs) || len(d.Outputs) == 0 {
			return engine.Errorf(engine.CodeInternal, "the result of the job has %d tensors in a %T", len(d.Outputs), d.Result.Output)
		}
		tensors := make([]Tensor, len(d.Outputs))
		for i := range tensors {
			tensors[i] = Tensor{out.Outputs[i].Shape, d.Outputs[i]}
		}
		return accept(d.Index-first, tensors)
	})
}

// wantedOutputs are those that are asked for of a network, which it must have.
func wantedOutputs(network, model string, limits *wire.TensorLimits) ([]string, error) {
	of := func(t engine.DType) func(wire.TensorSpec) bool {
		return func(s wire.TensorSpec) bool { return s.Type == t }
	}
	n := len(limits.Outputs)
	switch {
	case len(limits.Inputs) != 1 || limits.Inputs[0].Type != engine.FP32 || n == 0 || !slices.ContainsFunc(limits.Outputs, of(engine.FP32)):
	case network == Recognize && n >= 3 && limits.Outputs[n-2].Type == engine.Int64 && limits.Outputs[n-1].Type == engine.FP32:
		return []string{limits.Outputs[n-2].Name, limits.Outputs[n-1].Name}, nil // as decoder: ctc adds them
	case network != Recognize && limits.Outputs[0].Type == engine.FP32:
		return []string{limits.Outputs[0].Name}, nil
	}
	return nil, engine.Errorf(engine.CodeUnavailable, "the model %s is none for the pipeline: want one input and a first output of FP32", fmt.Sprintf("%.200q", model))
}
