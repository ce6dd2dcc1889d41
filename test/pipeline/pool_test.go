package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/blob"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/executor/runnertest"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/mq"
)

// weighed is a runner whose loads and steps take time, and which counts what its weights take.
type weighed struct {
	executor.Runner
	piece, step time.Duration
	steps       int

	loading chan uint32 // each piece that begins to load, if somebody listens

	mu    sync.Mutex
	loads []uint32 // guarded by mu, as are those below
	most  uint64   // bytes of weights that were resident at a time
}

// Info tells what frames cost, too.
func (w *weighed) Info() wire.ExecutorInfo {
	info := w.Runner.Info()
	for i := range info.Models {
		if m := &info.Models[i]; m.Tensors != nil {
			m.Cost = wire.Cost{Base: 100 * time.Microsecond, Unit: 10 * time.Microsecond}
		}
	}
	return info
}

func (w *weighed) Load(model string, weight uint32) (done bool, err error) {
	select {
	case w.loading <- weight:
	default:
	}
	time.Sleep(w.piece)
	done, err = w.Runner.Load(model, weight)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.loads = append(w.loads, weight)
	held := uint64(0)
	for _, piece := range w.Info().Weights {
		if piece.Resident {
			held += piece.Bytes
		}
	}
	w.most = max(w.most, held)
	return done, err
}

func (w *weighed) Begin(run *wire.Run) (executor.Pass, error) {
	p, err := w.Runner.Begin(run)
	if err != nil {
		return nil, err
	}
	if _, tokens := run.Items[0].Work.(*wire.TokenItem); !tokens {
		return p, nil
	}
	return &weighedPass{p, w, 0}, nil
}

// weighedPass takes its steps, of which two are a layer, before those of the pass that it is made of.
type weighedPass struct {
	executor.Pass
	w     *weighed
	taken int
}

func (p *weighedPass) Step() (bool, error) {
	time.Sleep(p.w.step)
	if p.taken++; p.taken < p.w.steps {
		return false, nil
	}
	return p.Pass.Step()
}

func (p *weighedPass) Boundary() bool { return p.taken%2 == 0 }
func (p *weighedPass) Share() float64 { return float64(p.taken) / float64(p.w.steps) }

// textModels are models of tokens of four pieces of 10 bytes each, in a memory of so many.
func textModels(memory uint64, names ...string) *executor.Null {
	info := wire.ExecutorInfo{Device: "weighed", Memory: memory, CanPause: true}
	for _, name := range names {
		m := wire.ModelInfo{
			Name: name, Fingerprint: name, Cost: wire.Cost{Base: time.Millisecond, Unit: 10 * time.Microsecond},
			Tokens: &wire.TokenLimits{VocabSize: 258, MaxModelLen: 4096, BlockTokens: 16, NumBlocks: 64, MaxPassRows: 4096},
		}
		for range 4 {
			m.Weights = append(m.Weights, uint32(len(info.Weights)))
			info.Weights = append(info.Weights, wire.Weight{Bytes: 10})
		}
		info.Models = append(info.Models, m)
	}
	return executor.NewNull(info)
}

// pooled is a scheduler, an executor and a client joined by ZeroMQ.
type pooled struct {
	*pipeline
	pool *client.Client
}

func newPool(t *testing.T, open func() executor.Runner, cfg client.Config) *pooled {
	p := &pooled{pipeline: &pipeline{t: t, runner: nullRunner{}, endpoint: "ipc://" + t.TempDir() + "/s"}}
	p.startScheduler()
	p.start(open())
	conn, err := mq.Dial(p.endpoint, mq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Heartbeat = 50 * time.Millisecond
	p.pool = client.New(cfg, conn, zap.NewNop())
	stop := background(t, p.pool.Run)
	t.Cleanup(func() {
		stop()
		p.executor()
		p.scheduler()
		conn.Close()
	})
	return p
}

// start starts an executor over a runner.
func (p *pooled) start(r executor.Runner) {
	conn, err := mq.Dial(p.endpoint, mq.Options{})
	if err != nil {
		p.t.Fatal(err)
	}
	stop := background(p.t, func(ctx context.Context) error {
		cfg := executor.Config{Name: "null-0", Heartbeat: 50 * time.Millisecond, Log: zap.NewNop()}
		return executor.Run(ctx, cfg, conn, func() (executor.Runner, error) { return r, nil })
	})
	p.executor = func() { stop(); conn.Close() }
}

// ask runs a job of a model to its end.
func (p *pooled) ask(job engine.Job, data ...[]byte) (client.Delivery, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if _, err := p.pool.Model(ctx, job.Model); err != nil {
		return client.Delivery{}, err
	}
	results := client.NewResults()
	var j *client.Job
	var err error
	if _, tokens := job.Work.(*engine.Tokens); tokens {
		j, err = p.pool.NewJob(job, time.Now(), results, 0)
	} else {
		j, err = p.pool.NewTensors(job, data, time.Now(), results, 0)
	}
	if err != nil {
		return client.Delivery{}, err
	}
	if err := p.pool.Submit("", []*client.Job{j}); err != nil {
		return client.Delivery{}, err
	}
	for {
		got, err := results.Next(ctx, nil)
		if err != nil {
			return client.Delivery{}, err
		}
		if last := got[len(got)-1]; last.Result.Err != nil {
			return last, last.Result.Err
		} else if last.Result.Finish != engine.FinishNone {
			return last, nil
		}
	}
}

func textJob(model string, n, salt int) engine.Job {
	ids := make([]engine.TokenID, n)
	for i := range ids {
		ids[i] = engine.TokenID((i*31 + salt*17) % 258)
	}
	return engine.Job{Model: model, Work: &engine.Tokens{IDs: ids, Max: 1}}
}

// askText runs a job of tokens and compares its answer with that of a runner that has all models.
func (p *pooled) askText(model string, n, salt int) error {
	job := textJob(model, n, salt)
	got, err := p.ask(job)
	if err != nil {
		return fmt.Errorf("job %d of %s: %w", salt, model, err)
	}
	r := textModels(0, model)
	for _, w := range r.Info().Models[0].Weights {
		_ = executor.Load(r, model, w) // which takes no time and cannot fail
	}
	item := &wire.TokenItem{Tokens: job.Work.(*engine.Tokens).IDs}
	pass, err := r.Begin(&wire.Run{Model: model, Items: []wire.RunItem{{Work: item}}})
	if err != nil {
		return err
	}
	want := pass.Results()[0].Output.(*engine.TokenOutput).Answer.Token
	if answer := got.Result.Output.(*engine.TokenOutput).Answer; answer == nil || answer.Token != want {
		return fmt.Errorf("job %d of %s: answer %+v, want token %d", salt, model, answer, want)
	}
	return nil
}

// traffic runs clients of the models until they have brought so many jobs each; the shares of the models are
// 6, 3 and 1 in ten.
func (p *pooled) traffic(clients, jobs int, models ...string) {
	var group sync.WaitGroup
	for k := range clients {
		group.Go(func() {
			random := rand.New(rand.NewPCG(uint64(k), 3))
			for n := range jobs {
				model := models[0]
				if x := random.IntN(10); x == 9 {
					model = models[2]
				} else if x >= 6 {
					model = models[1]
				}
				if err := p.askText(model, 1+random.IntN(60), k*jobs+n); err != nil {
					p.t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}

var three = []string{"large", "middle", "small"}

// TestThreeModelsInRoomForTwo: every job is answered as by its own model, and the weights of no more than two
// models are ever resident.
func TestThreeModelsInRoomForTwo(t *testing.T) {
	r := &weighed{Runner: textModels(85, three...), piece: time.Millisecond, step: time.Millisecond, steps: 3}
	p := newPool(t, func() executor.Runner { return r }, client.Config{})
	p.traffic(8, 50, three...)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.most > 85 || len(r.loads) < 12 {
		t.Errorf("up to %d bytes of weights were resident in a memory of 85, after %d loads of pieces", r.most, len(r.loads))
	}
	t.Logf("%d loads of pieces, of which 12 are there, for 400 jobs", len(r.loads))
}

// TestExecutorKilledInALoad: the next one begins with no weights, and every job is answered.
func TestExecutorKilledInALoad(t *testing.T) {
	var r *weighed
	open := func() executor.Runner {
		r = &weighed{Runner: textModels(85, three...), piece: 10 * time.Millisecond, step: time.Millisecond, steps: 3, loading: make(chan uint32)}
		return r
	}
	p := newPool(t, open, client.Config{})
	done := make(chan struct{})
	go func() { defer close(done); p.traffic(6, 20, three...) }() // ends with its jobs
	for range 4 {
		select {
		case <-r.loading: // and 10 ms to go
		case <-done:
			t.Fatal("all jobs were done before enough was loaded")
		}
		p.executor()
		p.start(open())
	}
	<-done
}

// TestSchedulerRestartedInALoad: what is resident stays so, and is not loaded again while there is room for it.
func TestSchedulerRestartedInALoad(t *testing.T) {
	r := &weighed{Runner: textModels(0, three...), piece: 10 * time.Millisecond, step: time.Millisecond, steps: 3, loading: make(chan uint32)}
	p := newPool(t, func() executor.Runner { return r }, client.Config{})
	done := make(chan struct{})
	go func() { defer close(done); p.traffic(6, 20, three...) }() // ends with its jobs
	for range 4 {
		select {
		case <-r.loading:
		case <-done:
			t.Fatal("all jobs were done before enough was loaded")
		}
		p.scheduler()
		p.startScheduler()
	}
	<-done
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[uint32]bool{}
	for _, w := range r.loads {
		if seen[w] {
			t.Errorf("piece %d was loaded again: %d", w, r.loads)
			break
		}
		seen[w] = true
	}
}

// tensorModels are two perceptrons, one of which is the other tuned.
func tensorModels(blobs runnertest.Blobs) *runnertest.Perceptrons {
	return runnertest.NewPerceptrons(blobs,
		runnertest.Perceptron{Name: "edges", In: 6, Hidden: 10, Out: 3, A: 1, B: 2},
		runnertest.Perceptron{Name: "edges, tuned", In: 6, Hidden: 10, Out: 3, A: 1, B: 3})
}

// newMixed is a pool of text and tensors on one executor, passes of text having so many steps, and what opens
// its runner.
func newMixed(t *testing.T, step time.Duration, steps int) (*pooled, func() executor.Runner) {
	t.Helper()
	dir := t.TempDir()
	store := func(hold time.Duration) *blob.Store {
		s, err := blob.NewStore(blob.Config{Limit: 64 << 20, Hold: hold, Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	inputs, outputs, reader := store(0), store(time.Minute), blob.NewReader(dir)
	t.Cleanup(func() { reader.Close() })
	open := func() executor.Runner {
		both := struct {
			*blob.Store
			*blob.Reader
		}{outputs, reader}
		return &weighed{Runner: runnertest.Join(textModels(0, three...), tensorModels(both)), piece: time.Millisecond, step: step, steps: steps}
	}
	return newPool(t, open, client.Config{Inputs: inputs, Outputs: reader}), open
}

// TestTextFramesAndGradients: one executor answers prompts, frames and gradients, whose bytes never see the
// scheduler, with the bits of a runner that does one job at a time; executor and scheduler are restarted.
func TestTextFramesAndGradients(t *testing.T) {
	p, open := newMixed(t, time.Millisecond, 4)
	var over atomic.Bool
	var frames atomic.Int64
	var group sync.WaitGroup
	group.Go(func() { p.traffic(3, 60, three...); over.Store(true) })
	for k, model := range []string{"edges", "edges, tuned", "edges"} {
		group.Go(func() {
			for n := 0; !over.Load(); n++ {
				if err := p.askFrame(engine.Job{Model: model}, k == 2, 1000*k+n); err != nil {
					t.Error(err)
					return
				}
				frames.Add(1)
			}
		})
	}
	for range 3 {
		time.Sleep(50 * time.Millisecond)
		p.executor()
		p.start(open())
		time.Sleep(50 * time.Millisecond)
		p.scheduler()
		p.startScheduler()
	}
	group.Wait()
	t.Logf("%d frames and gradients beside 180 prompts", frames.Load())
	if frames.Load() < 10 {
		t.Errorf("only %d frames were answered", frames.Load())
	}
}

// TestFramesNest: frames that are promised to be met do not wait for passes of text that take longer than they
// have, and neither spoils the other's bits.
func TestFramesNest(t *testing.T) {
	p, _ := newMixed(t, 2*time.Millisecond, 100)
	if err := p.askFrame(engine.Job{Model: "edges"}, false, 0); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	var over atomic.Bool
	group.Go(func() { p.traffic(2, 4, three...); over.Store(true) })
	met, late := 0, 0
	for n := 1; !over.Load(); n++ {
		job := engine.Job{Model: "edges", Stream: "camera", Deadline: 100 * time.Millisecond, Promised: true}
		err := p.askFrame(job, false, n)
		var refused *engine.Error
		switch {
		case err == nil:
			met++
		case errors.As(err, &refused) && (refused.Code == engine.CodeDeadline || refused.Code == engine.CodeOverloaded):
			late++
		default:
			t.Error(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	group.Wait()
	time.Sleep(100 * time.Millisecond) // the counter is the last Welcome's
	nested := p.pool.State().Pool.Nested
	t.Logf("%d frames were met and %d late or refused beside 8 passes of 200 ms; %d were nested", met, late, nested)
	if met == 0 || nested == 0 {
		t.Errorf("%d frames were met and %d nested, want some of both", met, nested)
	}
}

// askFrame runs a frame, or a gradient, and compares what it gets with a pass of its own.
func (p *pooled) askFrame(job engine.Job, gradient bool, salt int) error {
	random := rand.New(rand.NewPCG(uint64(salt), 5))
	ref := func(name string, columns int) (engine.Ref, []byte) {
		raw := make([]byte, 0, 8*columns)
		for range 2 * columns {
			bits := math.Float32bits(float32(random.NormFloat64()))
			raw = append(raw, byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24))
		}
		return engine.Ref{Name: name, Type: engine.FP32, Shape: []int{2, columns}}, raw
	}
	x, bytes := ref("x", 6)
	work, data := &engine.Tensors{Inputs: []engine.Ref{x}, Frames: 2}, [][]byte{bytes}
	if gradient {
		y, seed := ref("y", 3)
		work.Grad, work.Frames = &engine.Grad{Seeds: []engine.Ref{y}, Inputs: []string{"x"}}, 4
		data = append(data, seed)
	}
	job.Work = work
	got, err := p.ask(job, data...)
	if err != nil {
		return fmt.Errorf("frame %d of %s: %w", salt, job.Model, err)
	}
	want, err := frameAlone(job.Model, work, data)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(got.Outputs, want) {
		return fmt.Errorf("frame %d of %s: outputs %v, want %v", salt, job.Model, got.Outputs, want)
	}
	return nil
}

// frameAlone is what a runner of its own finds for work.
func frameAlone(model string, work *engine.Tensors, data [][]byte) (outputs [][]byte, err error) {
	memory := &runnertest.Memory{}
	r := tensorModels(memory)
	for w := range r.Info().Weights {
		if err := executor.Load(r, model, uint32(w)); err != nil {
			return nil, err
		}
	}
	item := *work
	item.Inputs = []engine.Ref{work.Inputs[0]}
	item.Inputs[0].Blob, err = memory.Put(data[0])
	if item.Grad != nil && err == nil {
		item.Grad = &engine.Grad{Seeds: []engine.Ref{work.Grad.Seeds[0]}, Inputs: work.Grad.Inputs}
		item.Grad.Seeds[0].Blob, err = memory.Put(data[1])
	}
	if err != nil {
		return nil, err
	}
	pass, err := r.Begin(&wire.Run{Model: model, Items: []wire.RunItem{{Work: &wire.TensorItem{Tensors: item}}}})
	for done := false; !done && err == nil; {
		done, err = pass.Step()
	}
	if err != nil {
		return nil, err
	}
	res := pass.Results()[0]
	if res.Err != nil {
		return nil, res.Err
	}
	for _, ref := range res.Output.(*engine.TensorOutput).Outputs {
		n, _ := ref.Bytes()
		raw := make([]byte, n)
		if err := memory.Read(ref.Blob, raw); err != nil {
			return nil, err
		}
		outputs = append(outputs, raw)
	}
	return outputs, nil
}
