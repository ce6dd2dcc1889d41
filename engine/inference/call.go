package inference

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/oip"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// Version is the only one that models have.
const Version = "1"

// maxStream is how long the name of a stream may be, in bytes.
const maxStream = 256

// Call is one request on its way. One goroutine uses it.
type Call struct {
	Record Record

	s         *Service
	from      Origin
	begun     time.Time
	request   *oip.Request
	ctx       context.Context // that the request's deadline ends too
	cancel    context.CancelFunc
	job       *client.Job
	results   *client.Results
	gradients int   // among the job's outputs
	open      bool  // the job is
	held      int64 // counted in Service.memory
}

// Record is what the log and the metrics say of a Call.
type Record struct {
	Frames          float64       // 0 until the request is found to be right
	Prepared        time.Duration // the making of inputs, and the waiting for it
	Queued, Running time.Duration
	Written         time.Duration // the making and sending of the answer; the caller's
	Answered        bool
	Trace           *client.Trace // of the job; nil: not kept
}

// limitTime gives the call a context that its deadline ends.
func (c *Call) limitTime(ctx context.Context) {
	c.ctx, c.cancel = ctx, func() {}
	if r := c.request; r != nil && r.Timeout > 0 && (c.from.Deadline == 0 || r.Timeout < c.from.Deadline) {
		c.from.Deadline = r.Timeout
	}
	if c.from.Deadline > 0 {
		c.ctx, c.cancel = context.WithDeadlineCause(ctx, c.from.Arrived.Add(c.from.Deadline), errLate(c.from.Deadline))
	}
}

// ended is why the call's context has ended; nil if it has not.
func (c *Call) ended() error { return context.Cause(c.ctx) }

// makeJob makes the job of the request.
func (c *Call) makeJob(limits *wire.TensorLimits) error {
	work := &engine.Tensors{}
	var seeds []engine.Ref
	var data, seedData [][]byte
	if err := c.readOutputs(work, limits); err != nil {
		return err
	}
	left := c.s.cfg.MaxInputs
	for i := range c.request.Inputs {
		t := &c.request.Inputs[i]
		if slices.ContainsFunc(c.request.Inputs[:i], func(other oip.Tensor) bool { return other.Name == t.Name }) {
			return newRequestError("input %.100q is given twice", t.Name)
		}
		spec := specOf(limits.Inputs, t.Name)
		if output, isSeed := strings.CutPrefix(t.Name, engine.SeedPrefix); isSeed && spec == nil {
			seeds = append(seeds, engine.Ref{Name: output, Type: t.Type, Shape: t.Shape})
			seedData = append(seedData, t.Data)
			continue
		}
		ref, bytes, err := c.readInput(t, spec, limits, left)
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
	c.job, err = c.s.pool.NewTensors(job, append(data, seedData...), time.Now(), c.results, 0)
	if err == nil {
		c.Record.Frames, c.Record.Prepared = frames, time.Since(c.begun)
	}
	return err
}

// readInput is a tensor as the model takes it.
func (c *Call) readInput(t *oip.Tensor, spec *wire.TensorSpec, limits *wire.TensorLimits, left int) (engine.Ref, []byte, error) {
	ref := engine.Ref{Name: t.Name, Type: t.Type, Shape: t.Shape}
	if spec == nil {
		return ref, nil, newRequestError("the model has no input %.100q; its inputs are %s", t.Name, specNames(limits.Inputs))
	}
	p, err := picturesOf(t, spec, c.from.Image)
	if err != nil || p == nil {
		return ref, t.Data, err
	}
	made, err := c.makePictures(p, left)
	ref.Type, ref.Shape = spec.Type, p.shape
	return ref, made, err
}

// readOutputs notes which outputs are wanted, and gradients to which inputs.
func (c *Call) readOutputs(work *engine.Tensors, limits *wire.TensorLimits) error {
	for i, w := range c.request.Outputs {
		if slices.ContainsFunc(c.request.Outputs[:i], func(other oip.Wanted) bool { return other.Name == w.Name }) {
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
		wanted := len(c.request.Outputs) == 0 || slices.Contains(work.Outputs, spec.Name)
		if !wanted || c.request.IsBinary(spec.Name) {
			continue
		}
		if err := oip.CheckJSON(spec.Name, spec.Type); err != nil {
			return &RequestError{err}
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

// newJob is the job around work, with what its deadline leaves of time.
func (c *Call) newJob(work *engine.Tensors) (engine.Job, error) {
	r := c.request
	job := engine.Job{Model: c.from.Model, Work: work, User: c.from.User, Priority: poolPriority(r.Priority)}
	if c.from.Deadline > 0 {
		if job.Deadline = time.Until(c.from.Arrived.Add(c.from.Deadline)); job.Deadline <= 0 {
			return job, errLate(c.from.Deadline)
		}
	}
	if len(r.Stream) > maxStream {
		return job, newRequestError("stream has %d bytes, the limit is %d", len(r.Stream), maxStream)
	}
	if r.Stream != "" {
		job.Stream = strconv.Quote(c.from.Model) + "/" + c.from.Salt(r.Stream) // the frames of a camera that two models see are two streams
	}
	job.Promised = job.Stream != "" && job.Deadline > 0
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

// Submit gives the job to the pool; the body is the caller's again. The caller calls Close in the end.
func (c *Call) Submit() error {
	err := c.s.pool.Submit(c.from.Holder, []*client.Job{c.job})
	c.giveBack(c.held)
	if err != nil {
		return err
	}
	c.open = true
	return nil
}

// Close withdraws what is not done.
func (c *Call) Close() {
	if c.open {
		c.s.pool.Cancel(c.job)
	}
	c.giveBack(c.held)
	c.cancel()
}

// Wait waits for the result and makes the answer. At the deadline it waits no longer.
func (c *Call) Wait() (*oip.Response, error) {
	received, err := c.results.Next(c.ctx, nil)
	if err != nil {
		return nil, err
	}
	c.open = false
	d := &received[0]
	c.Record.Trace.Note(*d)
	c.Record.Queued, c.Record.Running = d.Result.Timing.Queued, d.Result.Timing.Running
	if d.Result.Err != nil {
		return nil, d.Result.Err
	}
	out, ok := d.Result.Output.(*engine.TensorOutput)
	if !ok || len(out.Outputs) != len(d.Outputs) {
		return nil, engine.Errorf(engine.CodeInternal, "the result of the job has %d tensors in a %T", len(d.Outputs), d.Result.Output)
	}
	answer := &oip.Response{Model: c.from.Name, Version: Version, ID: c.request.ID}
	for i, ref := range out.Outputs {
		name := ref.Name
		if i >= len(out.Outputs)-c.gradients {
			name = engine.GradientPrefix + name
		}
		answer.Outputs = append(answer.Outputs, oip.Output{Name: name, Type: ref.Type, Shape: ref.Shape, Data: d.Outputs[i], Binary: c.request.IsBinary(name)})
	}
	if err := answer.Check(); err != nil {
		return nil, &RequestError{err}
	}
	c.Record.Answered = true
	return answer, nil
}
