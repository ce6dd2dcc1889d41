package client

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// Inputs keeps the bytes of tensors where executors find them, until they are released. Its methods are safe for
// concurrent use.
type Inputs interface {
	PutFor(holder string, data []byte) (blob string, err error) // a copy, of the share of a holder; an error says why there is no room
	Release(blob string)
}

// Outputs brings the bytes of tensors that executors keep. Its methods are safe for concurrent use.
type Outputs interface {
	// Take fills dst with a blob, of that size, which its executor needs to keep no more.
	Take(blob string, dst []byte) error
}

// maxOutputs is how many bytes a job's outputs may have.
const maxOutputs = 1 << 30

// tensors is what a job of tensors keeps for its executors.
type tensors struct {
	data  [][]byte // of refs; nil once the job is open
	refs  []*engine.Ref
	blobs []string // names of what Inputs holds; set in Submit, before the job is open
}

// NewTensors is NewJob for a job of *engine.Tensors, whose Refs need no Blob: data is the bytes of its inputs,
// and then of its gradient's seeds, in their order. They must stay as they are until Submit returns.
func (c *Client) NewTensors(job engine.Job, data [][]byte, arrived time.Time, results *Results, index int) (*Job, error) {
	work, ok := job.Work.(*engine.Tensors)
	if !ok || c.cfg.Inputs == nil {
		return nil, engine.Errorf(engine.CodeInternal, "a job of %T brings tensors to a client that keeps none", job.Work)
	}
	mine, held := withRefs(work), &tensors{data: data}
	job.Work = mine
	for i := range mine.Inputs {
		held.refs = append(held.refs, &mine.Inputs[i])
	}
	if mine.Grad != nil {
		for i := range mine.Grad.Seeds {
			held.refs = append(held.refs, &mine.Grad.Seeds[i])
		}
	}
	if err := checkBytes(held.refs, data); err != nil {
		return nil, err
	}
	j, err := c.NewJob(job, arrived, results, index)
	if err != nil {
		return nil, err
	}
	j.tensors = held
	if m := c.State().Models[job.Model]; m != nil {
		j.cost = m.TensorTime(mine.Frames)
	}
	return j, nil
}

// withRefs copies work with refs of its own.
func withRefs(work *engine.Tensors) *engine.Tensors {
	mine := *work
	mine.Inputs = append([]engine.Ref(nil), work.Inputs...)
	if work.Grad != nil {
		grad := *work.Grad
		grad.Seeds = append([]engine.Ref(nil), grad.Seeds...)
		mine.Grad = &grad
	}
	return &mine
}

// checkBytes holds the sizes of tensors to their types and shapes.
func checkBytes(refs []*engine.Ref, data [][]byte) error {
	if len(refs) != len(data) {
		return engine.Errorf(engine.CodeBadTokens, "the job names %d tensors and brings the bytes of %d", len(refs), len(data))
	}
	for i, r := range refs {
		if n, ok := r.Bytes(); !ok || n != len(data[i]) {
			return engine.Errorf(engine.CodeBadTokens, "%s has %d bytes; %v of the shape %v is %d", r.Name, len(data[i]), r.Type, r.Shape, n)
		}
	}
	return nil
}

// keepTensors puts the tensors of a holder's jobs where executors find them: of all jobs or, with an error, of none.
func (c *Client) keepTensors(holder string, jobs []*Job) *engine.Error {
	for _, j := range jobs {
		if j.tensors == nil {
			continue
		}
		for i, data := range j.tensors.data {
			blob, err := c.cfg.Inputs.PutFor(holder, data)
			if err != nil {
				c.letGo(jobs...)
				return noRoom(fmt.Sprintf("%s of job %v cannot be kept for an executor", j.tensors.refs[i].Name, j.submit.ID), err)
			}
			j.tensors.refs[i].Blob = blob
			j.tensors.blobs = append(j.tensors.blobs, blob)
		}
	}
	return nil
}

// letGo releases what is kept for jobs that have ended, or are not opened.
func (c *Client) letGo(jobs ...*Job) {
	for _, j := range jobs {
		if j.tensors == nil {
			continue
		}
		for _, blob := range j.tensors.blobs {
			c.cfg.Inputs.Release(blob)
		}
		j.tensors.blobs = nil
	}
}

// fetchOutputs brings the outputs of a job that its executor has done, and ends the job. Outputs that have gone with
// their executor are a lost Result.
func (c *Client) fetchOutputs(j *Job, r *wire.Result, out *engine.TensorOutput) {
	data, err := c.readTensors(out.Outputs)
	c.mu.Lock()
	if c.open[r.Job] != j {
		c.mu.Unlock()
		return // it was cancelled, or answered twice
	}
	switch {
	case err != nil && j.gaps < maxGaps:
		again := c.renameJob(j)
		c.mu.Unlock()
		c.log.Warn("outputs were lost; the job is run again", zap.Stringer("job", r.Job), zap.Stringer("as", again.ID), zap.Error(err))
		c.sendJob(j, again)
		return
	case err != nil:
		r = &wire.Result{Job: r.Job, Err: engine.Errorf(engine.CodeInternal, "the outputs of job %v were lost for the %dth time: %v", r.Job, maxGaps+1, err)}
	}
	c.notePace(j, r)
	c.forgetJob(j)
	c.mu.Unlock()
	j.results.putDelivery(j.delivery(r, data))
}

// readTensors brings the bytes of tensors.
func (c *Client) readTensors(refs []engine.Ref) ([][]byte, error) {
	data, left := make([][]byte, len(refs)), maxOutputs
	for i := range refs {
		n, ok := refs[i].Bytes()
		if !ok || n > left {
			return nil, fmt.Errorf("%s: %v of the shape %v; %d bytes are left of %d", refs[i].Name, refs[i].Type, refs[i].Shape, left, maxOutputs)
		}
		left -= n
		data[i] = make([]byte, n)
		if err := c.cfg.Outputs.Take(refs[i].Blob, data[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", refs[i].Name, err)
		}
	}
	return data, nil
}
