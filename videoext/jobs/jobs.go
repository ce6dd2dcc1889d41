// Package jobs has networks of the pool look at frames of video: it makes a job of each frame, and what was found of its result.
package jobs

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/images"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/osthread"
	"github.com/prefillonly/prefillonly/internal/processors"
	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/metrics"
	"github.com/prefillonly/prefillonly/videoext/vision"
)

// Network is a model of the pool that looks at frames.
type Network struct {
	Model   string // the pool's name
	Image   images.Options
	Decoder *vision.Decoder
	Vision  vision.Options // but for Input
}

// Maker makes jobs of frames. Its methods are safe for concurrent use.
type Maker struct {
	pool    *client.Client
	scalers chan *ffmpeg.Scaler // one for each stage that runs
	labels  sync.Map            // of a class of a model
}

type class struct {
	model  string
	number int
}

// New makes a Maker. The caller closes it when no frames are looked at any more.
func New(pool *client.Client) *Maker {
	n := runtime.GOMAXPROCS(0) + 1 // a short stage more
	m := &Maker{pool: pool, scalers: make(chan *ffmpeg.Scaler, n)}
	for range n {
		m.scalers <- new(ffmpeg.Scaler)
	}
	return m
}

// Close frees its memory.
func (m *Maker) Close() {
	for range cap(m.scalers) {
		(<-m.scalers).Close()
	}
}

// Took is what something took.
type Took struct {
	Waited    time.Duration // for its slot
	Processor time.Duration
}

// Turn does what takes a processor about so long when its turn has come. Its own errors are those of processors.Pool.
func (m *Maker) Turn(ctx context.Context, takes time.Duration, do func(s *ffmpeg.Scaler) error) (took Took, err error) {
	return m.runStage(ctx, processors.Stage{Kind: "frames", Takes: takes}, do)
}

func (m *Maker) runStage(ctx context.Context, stage processors.Stage, do func(s *ffmpeg.Scaler) error) (Took, error) {
	return runMeasured(ctx, stage, func() error {
		s := <-m.scalers
		defer func() { m.scalers <- s }()
		return do(s)
	})
}

func runMeasured(ctx context.Context, stage processors.Stage, do func() error) (took Took, err error) {
	took.Waited, err = processors.Shared().Do(ctx, stage, func() error {
		took.Processor, err = osthread.Measure(do)
		return err
	})
	return took, err
}

// Label is the name of a class of a model, once it was seen; empty otherwise.
func (m *Maker) Label(model string, number int) string {
	label, _ := m.labels.Load(class{model, number})
	text, _ := label.(string)
	return text
}

// UnfitError says why a model does not look at frames as it is declared.
type UnfitError struct{ error }

// Check says what the pool knows to be wrong with a network: an *UnfitError. It waits for nothing.
func (m *Maker) Check(n *Network) error {
	ended, stop := context.WithCancel(context.Background())
	stop()
	var unfit *UnfitError
	if _, _, err := m.modelInput(ended, n); errors.As(err, &unfit) {
		return err
	}
	return nil
}

// Cost is what a device takes for a frame of a size, as far as the pool has told; the error is an *UnfitError or an *engine.Error.
func (m *Maker) Cost(ctx context.Context, n *Network, width, height int) (cost time.Duration, executors int, err error) {
	served, in, err := m.modelInput(ctx, n)
	if err != nil {
		return 0, 0, err
	}
	return frameCost(served, in, width, height), max(1, served.Executors), nil
}

func frameCost(served *wire.Served, in *images.Target, width, height int) time.Duration {
	units := served.Tensors.Units(1, float64(in.Bytes(height, width)/in.Type.Size()), false)
	return served.TensorTime(units)
}

func (m *Maker) modelInput(ctx context.Context, n *Network) (*wire.Served, *images.Target, error) {
	served, err := m.pool.Model(ctx, n.Model)
	if err != nil {
		return nil, nil, err
	}
	if served.Tensors == nil || len(served.Tensors.Inputs) != 1 {
		return nil, nil, &UnfitError{fmt.Errorf("the model %s does not take pictures alone", n.Model)}
	}
	spec := &served.Tensors.Inputs[0]
	to, err := images.NewTarget(spec.Type, spec.Shape, n.Image)
	if err != nil {
		return nil, nil, &UnfitError{fmt.Errorf("the model %s, input %s: %w", n.Model, spec.Name, err)}
	}
	if err := n.Decoder.Check(shapesOf(served.Tensors.Outputs), vision.Size{Height: to.Height, Width: to.Width}); err != nil {
		return nil, nil, &UnfitError{fmt.Errorf("the model %s: %w", n.Model, err)}
	}
	return served, to, nil
}

// shapesOf are outputs of floating-point numbers without values.
func shapesOf(specs []wire.TensorSpec) (outputs []vision.Output) {
	for _, s := range specs {
		if _, ok := floats[s.Type]; ok {
			outputs = append(outputs, vision.Output{Name: s.Name, Shape: s.Shape})
		}
	}
	return outputs
}

// Terms are on what terms the network is asked about frames.
type Terms struct {
	Stream   string        // the stream's name to the pool
	Arrived  time.Time     // of the frames
	Deadline time.Duration // from then on; 0: none
	Promised bool          // the deadline is met, or the frame refused
	User     string        // key of fairness
	Lowest   bool          // it is looked at where others leave the device idle
	Last     *Seen         // of the last frame that was seen, which Infer sets; nil: not wanted
}

// Seen is a frame and what the network said of it.
type Seen struct {
	frame   *media.Frame // nil: it has not seen one
	shape   []int        // of the input
	outputs []vision.Output
}

// Whole says that there is a frame.
func (s *Seen) Whole() bool { return s.frame != nil }

// Infer has the network find what is in frames, each a job of its own. Why says of each frame for which it did not why; it is empty for the others.
func (m *Maker) Infer(ctx context.Context, n *Network, frames []*media.Frame, t Terms) (findings []videoext.Findings, why []string, spent metrics.Spent) {
	findings, why = make([]videoext.Findings, len(frames)), make([]string, len(frames))
	results := client.NewResults()
	open, last := map[int]*client.Job{}, -1 // the last frame that was seen
	shapes := make([][]int, len(frames))
	defer func() {
		for _, j := range open {
			m.pool.Cancel(j)
		}
	}()
	for i, f := range frames {
		j, shape, err := m.newFrameJob(ctx, n, f, t, i, len(frames), results, &spent)
		if err == nil {
			if failed := m.pool.Submit("", []*client.Job{j}); failed != nil {
				err = failed
			}
		}
		if err != nil {
			why[i] = failureReason(ctx, err)
			continue
		}
		open[i], shapes[i] = j, shape
	}
	var taken []client.Delivery
	for len(open) > 0 {
		var err error
		if taken, err = results.Next(ctx, taken); err != nil {
			for i := range open {
				why[i] = failureReason(ctx, err)
			}
			break
		}
		for k := range taken {
			d := &taken[k]
			delete(open, d.Index)
			took, err := runMeasured(ctx, processors.Stage{Kind: "outputs", Takes: readingTime(d)}, func() (err error) {
				seen := &Seen{frame: frames[d.Index], shape: shapes[d.Index]}
				if findings[d.Index], err = m.readFindings(ctx, n, d, seen); err == nil && d.Index > last && t.Last != nil {
					*t.Last, last = *seen, d.Index
				}
				return err
			})
			spent.Add(metrics.Spent{Read: took.Processor, Turn: took.Waited, Queue: d.Result.Timing.Queued, Device: d.Result.Timing.Running})
			if err != nil {
				why[d.Index] = failureReason(ctx, err)
			}
		}
	}
	return findings, why, spent
}

// readPace is about what a byte of a network's outputs takes to be read.
const readPace = 2 * time.Nanosecond

// readingTime is about how long it takes to make findings of a result.
func readingTime(d *client.Delivery) (takes time.Duration) {
	for _, o := range d.Outputs {
		takes += readPace * time.Duration(len(o))
	}
	return takes
}

// failureReason is why a frame was not looked at, for those who watch the stream.
func failureReason(ctx context.Context, err error) string {
	if cause := context.Cause(ctx); cause != nil {
		return cause.Error()
	}
	return err.Error()
}

// newFrameJob makes the job of a frame, one of several of a segment. Frames of the same place in their segments are a stream to the pool, of which it
// promises deadlines.
func (m *Maker) newFrameJob(ctx context.Context, n *Network, f *media.Frame, t Terms, place, of int, results *client.Results, spent *metrics.Spent) (*client.Job, []int, error) {
	served, to, err := m.modelInput(ctx, n)
	if err != nil {
		return nil, nil, err
	}
	var due time.Time
	if t.Deadline > 0 {
		due = t.Arrived.Add(t.Deadline)
	}
	data, shape, took, err := m.writeInput(ctx, to, f, due, frameCost(served, to, f.Width, f.Height))
	spent.Add(metrics.Spent{Scale: took.Processor, Turn: took.Waited})
	if err != nil {
		return nil, nil, err
	}
	ref := engine.Ref{Name: served.Tensors.Inputs[0].Name, Type: to.Type, Shape: shape}
	work := &engine.Tensors{Inputs: []engine.Ref{ref}, Frames: served.Tensors.Units(1, float64(len(data)/to.Type.Size()), false)}
	job := engine.Job{Model: n.Model, Work: work, User: t.User}
	if t.Lowest {
		job.Priority = engine.Lowest
	}
	if t.Deadline > 0 {
		if job.Deadline = time.Until(t.Arrived.Add(t.Deadline)); job.Deadline <= 0 {
			return nil, nil, fmt.Errorf("its deadline of %v passed before it could be looked at", t.Deadline)
		}
		job.Stream, job.Promised = t.Stream, t.Promised
		if of > 1 {
			job.Stream = fmt.Sprintf("%s/%d", t.Stream, place)
		}
	}
	j, err := m.pool.NewTensors(job, [][]byte{data}, t.Arrived, results, place)
	return j, shape, err
}

// pixelPace is about how long the making of an input takes for each of its pixels and of the frame's.
const pixelPace = 10 * time.Nanosecond

// writeInput makes the input of a frame, of which there is the rest to be done by some time.
func (m *Maker) writeInput(ctx context.Context, to *images.Target, f *media.Frame, due time.Time, rest time.Duration) (data []byte, shape []int, took Took, err error) {
	shape = to.Shape(1, f.Height, f.Width)
	size := to.Bytes(f.Height, f.Width)
	if size > maxInput {
		return nil, nil, took, fmt.Errorf("a frame of %d x %d makes an input of %d bytes, the limit is %d", f.Width, f.Height, size, maxInput)
	}
	height, width := spatialSize(to, shape)
	height, width = to.Inner(height, width, f.Height, f.Width)
	took, err = m.runStage(ctx, processors.Stage{Kind: "input", Takes: pixelPace * time.Duration(f.Width*f.Height+height*width), Due: due, Rest: rest}, func(s *ffmpeg.Scaler) error {
		pixels := make([]byte, 3*height*width)
		if err := s.BGR(f, width, height, pixels); err != nil {
			return err
		}
		for i := 0; i < len(pixels); i += 3 {
			pixels[i], pixels[i+2] = pixels[i+2], pixels[i]
		}
		data = make([]byte, size)
		to.Write(data, images.FromRGB(pixels, height, width))
		return nil
	})
	return data, shape, took, err
}

// maxInput is how many bytes the input of a frame may have.
const maxInput = 256 << 20

// spatialSize is the height and width in a shape.
func spatialSize(to *images.Target, shape []int) (height, width int) {
	if to.ChannelsFirst {
		return shape[2], shape[3]
	}
	return shape[1], shape[2]
}

// readFindings makes findings of what came back of a frame.
func (m *Maker) readFindings(ctx context.Context, n *Network, d *client.Delivery, seen *Seen) (found videoext.Findings, err error) {
	if seen.outputs, err = readOutputs(d.Result, d.Outputs); err != nil {
		return found, err
	}
	_, to, err := m.modelInput(ctx, n)
	if err != nil {
		return found, err
	}
	o, f := n.Vision, seen.frame
	o.Input.Height, o.Input.Width = spatialSize(to, seen.shape)
	r, err := n.Decoder.Decode(seen.outputs, o)
	if err != nil {
		return found, err
	}
	picture := vision.Size{Height: f.Height, Width: f.Width}
	height, width := to.Inner(o.Input.Height, o.Input.Width, f.Height, f.Width)
	if r.Mask != nil {
		r.Mask.Crop(height*r.Mask.Height/o.Input.Height, width*r.Mask.Width/o.Input.Width)
	}
	r.Place(vision.Size{Height: height, Width: width}, picture)
	for i := range r.Detections {
		if t := &r.Detections[i]; t.Label != "" {
			m.labels.LoadOrStore(class{n.Model, t.Class}, t.Label)
		}
	}
	return r.Findings(picture), nil
}
