package inference

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/images"
	"github.com/prefillonly/prefillonly/engine/oip"
	"github.com/prefillonly/prefillonly/engine/request"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// Version is the only one that models have.
const Version = "1"

// maxStream is how long the name of a stream may be, in bytes.
const maxStream = 256

// Call is one request on its way. One goroutine uses it.
type Call struct {
	*request.Call

	s         *Service
	image     images.Options // of the model's pictures
	begun     time.Time
	data      []byte       // the body
	body      *oip.Request // decoded; of a body that is data alone, when the model's input is known
	gradients int          // among the job's outputs
	answer    *oip.Response
}

// Admit waits until the model's limits are known, makes its inputs, and a job of them. It ends at the deadline.
func (c *Call) Admit(ctx context.Context) error {
	ctx, cancel := c.LimitTime(ctx)
	defer cancel()
	return c.AdmitTensors(ctx, c.Model, func(limits *wire.TensorLimits) (err error) {
		if c.body == nil {
			if c.body, err = rawRequest(limits, c.data); err != nil {
				return err
			}
		}
		return c.makeJob(ctx, limits)
	})
}

// makeJob makes the job of the request.
func (c *Call) makeJob(ctx context.Context, limits *wire.TensorLimits) error {
	work := &engine.Tensors{}
	var seeds []engine.Ref
	var data, seedData [][]byte
	if err := c.readOutputs(work, limits); err != nil {
		return err
	}
	left := c.s.cfg.MaxInputs
	for i := range c.body.Inputs {
		t := &c.body.Inputs[i]
		if slices.ContainsFunc(c.body.Inputs[:i], func(other oip.Tensor) bool { return other.Name == t.Name }) {
			return newRequestError("input %.100q is given twice", t.Name)
		}
		spec := specOf(limits.Inputs, t.Name)
		if output, isSeed := strings.CutPrefix(t.Name, engine.SeedPrefix); isSeed && spec == nil {
			seeds = append(seeds, engine.Ref{Name: output, Type: t.Type, Shape: t.Shape})
			seedData = append(seedData, t.Data)
			continue
		}
		ref, bytes, err := c.readInput(ctx, t, spec, limits, left)
		if err != nil {
			return err
		}
		left -= len(bytes)
		work.Inputs, data = append(work.Inputs, ref), append(data, bytes)
	}
	if err := c.joinSeeds(work, seeds); err != nil {
		return err
	}
	frames := framesOf(work.Inputs, limits)
	work.Frames = limits.Units(frames, elementCount(work.Inputs), work.Grad != nil)
	if work.Grad != nil {
		c.gradients = len(work.Grad.Inputs)
	}
	job, err := c.newJob(work)
	if err != nil {
		return err
	}
	if err := c.AddTensors(job, append(data, seedData...)); err != nil {
		return err
	}
	c.Record.Frames.Count, c.Record.Frames.Prepared = frames, time.Since(c.begun)
	return nil
}

// readInput is a tensor as the model takes it.
func (c *Call) readInput(ctx context.Context, t *oip.Tensor, spec *wire.TensorSpec, limits *wire.TensorLimits, left int) (engine.Ref, []byte, error) {
	ref := engine.Ref{Name: t.Name, Type: t.Type, Shape: t.Shape}
	if spec == nil {
		return ref, nil, newRequestError("the model has no input %.100q; its inputs are %s", t.Name, specNames(limits.Inputs))
	}
	p, err := picturesOf(t, spec, c.image)
	if err != nil || p == nil {
		return ref, t.Data, err
	}
	made, err := c.makePictures(ctx, p, limits, left)
	ref.Type, ref.Shape = spec.Type, p.shape
	return ref, made, err
}

// readOutputs notes which outputs are wanted, and gradients to which inputs.
func (c *Call) readOutputs(work *engine.Tensors, limits *wire.TensorLimits) error {
	for i, w := range c.body.Outputs {
		if slices.ContainsFunc(c.body.Outputs[:i], func(other oip.Wanted) bool { return other.Name == w.Name }) {
			return newRequestError("output %.100q is asked for twice", w.Name)
		}
		spec, list := specOf(limits.Outputs, w.Name), &work.Outputs
		name := w.Name
		if input, isGradient := strings.CutPrefix(w.Name, engine.GradientPrefix); isGradient && spec == nil {
			if work.Grad == nil {
				work.Grad = &engine.Grad{}
			}
			spec, list, name = specOf(limits.Inputs, input), &work.Grad.Inputs, input
		}
		if spec == nil {
			return newRequestError("the model has no output %.100q; its outputs are %s", w.Name, specNames(limits.Outputs))
		}
		*list = append(*list, name)
	}
	// An output that JSON cannot tell is refused before it is computed.
	for _, spec := range limits.Outputs {
		wanted := len(c.body.Outputs) == 0 || slices.Contains(work.Outputs, spec.Name)
		if !wanted || c.body.IsBinary(spec.Name) {
			continue
		}
		if err := oip.CheckJSON(spec.Name, spec.Type); err != nil {
			return newRequestError("%v", err)
		}
	}
	return nil
}

// joinSeeds joins seeds with the inputs that gradients are wanted to.
func (c *Call) joinSeeds(work *engine.Tensors, seeds []engine.Ref) error {
	switch {
	case work.Grad != nil && len(seeds) == 0:
		return newRequestError("output %s%.100s asks for a gradient, which needs an input %sOUTPUT beside it", engine.GradientPrefix, work.Grad.Inputs[0], engine.SeedPrefix)
	case work.Grad == nil && len(seeds) > 0:
		return newRequestError("input %s%.100s is the seed of a gradient, and no output %sINPUT is asked for", engine.SeedPrefix, seeds[0].Name, engine.GradientPrefix)
	case work.Grad != nil:
		work.Grad.Seeds = seeds
	}
	return nil
}

// newJob is the job around work.
func (c *Call) newJob(work *engine.Tensors) (engine.Job, error) {
	r := c.body
	job := engine.Job{Work: work, Priority: poolPriority(r.Priority)}
	if len(r.Stream) > maxStream {
		return job, newRequestError("stream has %d bytes, the limit is %d", len(r.Stream), maxStream)
	}
	if r.Stream != "" {
		job.Stream = strconv.Quote(c.Model) + "/" + c.Owner.Salt(r.Stream) // the frames of a camera that two models see are two streams
	}
	job.Promised = job.Stream != "" && c.Deadline > 0
	if r.Promised != nil {
		if *r.Promised && !job.Promised {
			return job, newRequestError("promised is for frames: give a stream and a timeout too")
		}
		job.Promised = *r.Promised
	}
	return job, nil
}

// defaultPriority is the level of a request that gives none; 1 is the highest.
const defaultPriority = 100

// poolPriority is the pool's, of which the lowest goes first and 0 is the default.
func poolPriority(level uint64) int {
	if level == 0 {
		return 0
	}
	return int(min(level, 1<<31)) - defaultPriority
}

// framesOf is the batch of inputs: the first dimension of those that leave it open.
func framesOf(inputs []engine.Ref, limits *wire.TensorLimits) float64 {
	for _, r := range inputs {
		if spec := specOf(limits.Inputs, r.Name); len(spec.Shape) > 0 && spec.Shape[0] < 0 && len(r.Shape) > 0 && r.Shape[0] > 0 {
			return float64(r.Shape[0])
		}
	}
	return 1
}

// elementCount is how many the tensors have together.
func elementCount(refs []engine.Ref) (n float64) {
	for i := range refs {
		if bytes, ok := refs[i].Bytes(); ok {
			n += float64(bytes / refs[i].Type.Size())
		}
	}
	return n
}

// Submit gives the job to the pool; the body is the caller's again.
func (c *Call) Submit() error {
	defer c.ReleaseAll() // the pool has what was made
	return c.Call.Submit()
}

// Wait waits for the result and makes the answer. At the deadline it waits no longer.
func (c *Call) Wait(ctx context.Context) error {
	ctx, cancel := c.LimitTime(ctx)
	defer cancel()
	return c.Call.Wait(ctx, c.acceptResult)
}

func (c *Call) acceptResult(d client.Delivery) error {
	out, ok := d.Result.Output.(*engine.TensorOutput)
	if !ok || len(out.Outputs) != len(d.Outputs) {
		return engine.Errorf(engine.CodeInternal, "the result of the job has %d tensors in a %T", len(d.Outputs), d.Result.Output)
	}
	answer := &oip.Response{Model: c.Named, Version: Version, ID: c.body.ID}
	for i, ref := range out.Outputs {
		name := ref.Name
		if i >= len(out.Outputs)-c.gradients {
			name = engine.GradientPrefix + name
		}
		answer.Outputs = append(answer.Outputs, oip.Output{Name: name, Type: ref.Type, Shape: ref.Shape, Data: d.Outputs[i], Binary: c.body.IsBinary(name)})
	}
	if err := answer.Check(); err != nil {
		return newRequestError("%v", err)
	}
	c.answer, c.Record.Finish = answer, engine.FinishStop.String()
	return nil
}

// Answer is that of a call that is done.
func (c *Call) Answer() *oip.Response { return c.answer }
