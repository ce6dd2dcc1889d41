package jobs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/metrics"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/vision"
)

// Gradient says how the utility of what the network found in a frame changes with the frame's macroblocks. Where its job is promised it stands back behind
// frames that are; if there is no room for that it waits for a free device. Where it has not begun at its deadline it is dropped.
func (m *Maker) Gradient(ctx context.Context, n *Network, seen *Seen, t Terms, u oneadapt.Utility) (*oneadapt.Map, metrics.Spent, error) {
	var spent metrics.Spent
	served, to, err := m.modelInput(ctx, n)
	if err != nil {
		return nil, spent, err
	}
	o, f := n.Vision, seen.frame
	o.Input.Height, o.Input.Width = spatialSize(to, seen.shape)
	sum, seeds, err := n.Decoder.Utility(seen.outputs, o, u.Evaluate)
	if err != nil {
		return nil, spent, err
	}
	data, shape, took, err := m.writeInput(ctx, to, f, time.Time{}, 0)
	spent.Add(metrics.Spent{Scale: took.Processor, Turn: took.Waited})
	if err != nil {
		return nil, spent, err
	}
	in := engine.Ref{Name: served.Tensors.Inputs[0].Name, Type: to.Type, Shape: shape}
	elements := len(data) / to.Type.Size()
	work := &engine.Tensors{Inputs: []engine.Ref{in}, Grad: &engine.Grad{Inputs: []string{in.Name}}, Frames: served.Tensors.Units(1, float64(elements), true)}
	tensors := [][]byte{data}
	for i, s := range seeds {
		work.Grad.Seeds = append(work.Grad.Seeds, engine.Ref{Name: seen.outputs[i].Name, Type: engine.FP32, Shape: seen.outputs[i].Shape})
		tensors = append(tensors, littleEndian(s))
	}
	derivatives, err := m.runTensorJob(ctx, n, work, tensors, t, &spent)
	var refused *engine.Error
	if t.Promised && errors.As(err, &refused) && (refused.Code == engine.CodeOverloaded || refused.Code == engine.CodeDeadline) && time.Since(t.Arrived) < t.Deadline {
		t.Promised = false
		derivatives, err = m.runTensorJob(ctx, n, work, tensors, t, &spent)
	}
	if err != nil {
		return nil, spent, err
	}
	if len(derivatives) != 1 || len(derivatives[0].Data) != elements {
		return nil, spent, fmt.Errorf("the gradient of %v came as %d tensors", shape, len(derivatives))
	}
	sizes, rows, columns := to.Pool(derivatives[0].Data, shape, f.Height, f.Width, media.MacroblockSize)
	g := &oneadapt.Map{Width: columns, Height: rows, Values: sizes, Utility: float32(sum)}
	return g, spent, g.Check()
}

// behindFrames is the priority of promises that stand back behind those to frames.
const behindFrames = 1

func littleEndian(values []float32) []byte {
	data := make([]byte, 4*len(values))
	for i, v := range values {
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(v))
	}
	return data
}

// runTensorJob is what a job of tensors brings, once it is done.
func (m *Maker) runTensorJob(ctx context.Context, n *Network, work *engine.Tensors, data [][]byte, t Terms, spent *metrics.Spent) ([]vision.Output, error) {
	results := client.NewResults()
	job := engine.Job{Model: n.Model, Work: work, User: t.User}
	if t.Promised {
		job.Stream, job.Promised, job.Priority = t.Stream, true, behindFrames
	}
	if t.Deadline > 0 {
		job.Deadline = max(time.Until(t.Arrived.Add(t.Deadline)), time.Nanosecond)
	}
	j, err := m.pool.NewTensors(job, data, t.Arrived, results, 0)
	if err != nil {
		return nil, err
	}
	if failed := m.pool.Submit("", []*client.Job{j}); failed != nil {
		return nil, failed
	}
	taken, err := results.Next(ctx, nil)
	if err != nil {
		m.pool.Cancel(j)
		return nil, err
	}
	d := &taken[0]
	spent.Add(metrics.Spent{Queue: d.Result.Timing.Queued, Device: d.Result.Timing.Running})
	return readOutputs(d.Result, d.Outputs)
}

// floats are the types of floating-point numbers: the others say such as how many there are.
var floats = map[engine.DType]kernels.DType{engine.FP32: kernels.F32, engine.FP16: kernels.F16, engine.BF16: kernels.BF16}

// readOutputs are a result's tensors of floating-point numbers.
func readOutputs(r *wire.Result, data [][]byte) ([]vision.Output, error) {
	if r.Err != nil {
		return nil, r.Err
	}
	out, ok := r.Output.(*engine.TensorOutput)
	if !ok || len(out.Outputs) != len(data) {
		return nil, fmt.Errorf("the result of its job has %d tensors in a %T", len(data), r.Output)
	}
	outputs := make([]vision.Output, 0, len(data))
	for i, ref := range out.Outputs {
		typ, ok := floats[ref.Type]
		if !ok {
			continue
		}
		values := make([]float32, int64(len(data[i]))/typ.Size())
		kernels.Expand(values, typ, data[i])
		outputs = append(outputs, vision.Output{Name: ref.Name, Shape: ref.Shape, Data: values})
	}
	return outputs, nil
}
