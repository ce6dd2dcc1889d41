// Package pipeline is what requests have in common that ask networks with work of processors before, between and behind their
// passes: where such work runs (Host), and a request to models of the pool as that (Call). It knows no HTTP.
package pipeline

import (
	"context"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/request"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/budget"
	"github.com/prefillonly/prefillonly/internal/processors"
)

// Tensor is an input or an output of a network, little-endian.
type Tensor struct {
	Name  string
	Type  engine.DType
	Shape []int
	Data  []byte
}

// Host is where a pipeline runs. Its networks are named by what they are for.
type Host interface {
	// RunStage runs work of a processor when its turn has come.
	RunStage(ctx context.Context, s processors.Stage, f func() error) error
	// HoldMemory counts bytes, until they are released or the request ends.
	HoldMemory(bytes int64) error
	ReleaseMemory(bytes int64)
	// TensorLimits are what a network takes and gives.
	TensorLimits(ctx context.Context, network string) (*wire.TensorLimits, error)
	// PlanPass tells of units of a network's cost that will be asked for, before anything is done, and returns how long they take. It
	// refuses what cannot be in time.
	PlanPass(network string, units float64) (takes time.Duration, err error)
	// RunPasses runs a network on each of several inputs, and hands accept the outputs of these names of each as they come.
	RunPasses(ctx context.Context, network string, outputs []string, inputs [][]Tensor, accept func(i int, outputs []Tensor) error) error
}

// Subject is what requests are about, in words for errors.
type Subject struct {
	Field string // of the request
	What  string // such as: the picture
}

// Service is what the requests of a pipeline share. Its methods are safe for concurrent use.
type Service struct {
	Processors *processors.Pool
	Memory     *budget.Budget // bytes of what is under way
	Subject    Subject
}

// Call is one request on its way: the Host of its pipeline. One goroutine uses it. Its errors are those of request.Call.
type Call struct {
	*request.Call

	of       *Service
	networks map[string]string // the pool's names
}

var _ Host = (*Call)(nil)

// Call makes a Call whose networks have these names in the pool.
func (s *Service) Call(from *request.Call, networks map[string]string) *Call {
	from.Record.Frames = &request.Frames{}
	return &Call{Call: from, of: s, networks: networks}
}

// RunStage implements Host.
func (c *Call) RunStage(ctx context.Context, s processors.Stage, f func() error) error {
	begun := time.Now()
	err := c.Call.RunStage(ctx, c.of.Processors, s, f)
	c.Record.Frames.Prepared += time.Since(begun)
	return err
}

// HoldMemory implements Host.
func (c *Call) HoldMemory(bytes int64) error {
	subject := &c.of.Subject
	switch full := c.Hold(c.of.Memory, bytes, 1); {
	case full != nil && full.Never:
		return api.Invalid(subject.Field, "%s takes too many bytes of memory: %v; send a smaller one", subject.What, full)
	case full != nil:
		return engine.Errorf(engine.CodeOverloaded, "%s takes bytes of memory: %v; come back later", subject.What, full)
	}
	return nil
}

// ReleaseMemory implements Host.
func (c *Call) ReleaseMemory(bytes int64) { c.Release(c.of.Memory, bytes) }

// TensorLimits implements Host.
func (c *Call) TensorLimits(ctx context.Context, network string) (limits *wire.TensorLimits, err error) {
	err = c.AdmitTensors(ctx, c.networks[network], func(l *wire.TensorLimits) error {
		limits = l
		return nil
	})
	return limits, err
}

// PlanPass implements Host.
func (c *Call) PlanPass(network string, units float64) (takes time.Duration, err error) {
	return c.PlanTensors(c.networks[network], units)
}

// RunPasses implements Host.
func (c *Call) RunPasses(ctx context.Context, network string, outputs []string, inputs [][]Tensor, accept func(i int, outputs []Tensor) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx) // its client left during a stage: devices have nothing to do
	}
	first, model := c.Jobs(), c.networks[network]
	err := c.AdmitTensors(ctx, model, func(limits *wire.TensorLimits) error {
		for _, in := range inputs {
			if err := c.addJob(model, limits, outputs, in); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || len(inputs) == 0 {
		return err
	}
	c.Together()
	if err := c.Submit(); err != nil {
		return err
	}
	c.Record.Frames.Count += float64(len(inputs))
	return c.Wait(ctx, func(d client.Delivery) error {
		out, ok := d.Result.Output.(*engine.TensorOutput)
		if !ok || len(out.Outputs) != len(d.Outputs) || len(d.Outputs) != len(outputs) {
			return engine.Errorf(engine.CodeInternal, "the result of the job has %d tensors in a %T, want %d", len(d.Outputs), d.Result.Output, len(outputs))
		}
		tensors := make([]Tensor, len(d.Outputs))
		for i, o := range out.Outputs {
			tensors[i] = Tensor{o.Name, o.Type, o.Shape, d.Outputs[i]}
		}
		return accept(d.Index-first, tensors)
	})
}

// addJob makes the job of a pass over inputs.
func (c *Call) addJob(model string, limits *wire.TensorLimits, outputs []string, inputs []Tensor) error {
	work, elements := &engine.Tensors{Outputs: outputs}, 0
	var data [][]byte
	for _, in := range inputs {
		work.Inputs = append(work.Inputs, engine.Ref{Name: in.Name, Type: in.Type, Shape: in.Shape})
		data, elements = append(data, in.Data), elements+len(in.Data)/in.Type.Size()
	}
	work.Frames = limits.Units(1, float64(elements), false)
	return c.AddTensors(engine.Job{Model: model, Work: work}, data)
}
