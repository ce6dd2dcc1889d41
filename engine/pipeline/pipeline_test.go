package pipeline

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/client/clienttest"
	"github.com/prefillonly/prefillonly/engine/request"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/budget"
	"github.com/prefillonly/prefillonly/internal/processors"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inline keeps tensors where jobs are: nothing is to be released.
type inline struct {
	mu   sync.Mutex
	next string
	held map[string][]byte
}

func (b *inline) put(data []byte) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next += "x"
	b.held[b.next] = append([]byte{}, data...)
	return b.next, nil
}

func (b *inline) Put(data []byte) (string, error)              { return b.put(data) }
func (b *inline) PutFor(_ string, data []byte) (string, error) { return b.put(data) }

func (b *inline) Release(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.held, name)
}

func (b *inline) Take(name string, dst []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	copy(dst, b.held[name])
	delete(b.held, name)
	return nil
}

// tiny is a server of two networks, "one" and "one/two", whose output y is their input x, and the slots of one processor.
type tiny struct {
	*testing.T
	*inline
	Service
	pool   *client.Client
	s      *clienttest.Scheduler
	answer func(s *wire.Submit, echo *wire.Result) *wire.Result // nil: the echo
}

func newTiny(t *testing.T) *tiny {
	n := &tiny{T: t, inline: &inline{held: map[string][]byte{}}}
	n.Service = Service{Processors: processors.New(1), Memory: budget.New(1000), Subject: Subject{"thing", "the thing"}}
	n.s = clienttest.NewScheduler(func(s *wire.Submit) []*wire.Result {
		in := s.Work.(*engine.Tensors).Inputs[0]
		n.mu.Lock()
		data := n.held[in.Blob]
		n.mu.Unlock()
		blob, _ := n.Put(data)
		r := &wire.Result{Job: s.ID, Output: &engine.TensorOutput{Outputs: []engine.Ref{{Name: "y", Type: in.Type, Shape: in.Shape, Blob: blob}}}}
		if n.answer != nil {
			r = n.answer(s, r)
		}
		if r == nil {
			return nil
		}
		return []*wire.Result{r}
	})
	n.pool = client.New(client.Config{Inputs: n.inline, Outputs: n.inline}, n.s, zap.NewNop())
	n.s.Deliver = n.pool.Deliver
	w := &wire.Welcome{Epoch: 1, Models: 2}
	for _, name := range []string{"one", "one/two"} {
		spec := func(name string) []wire.TensorSpec {
			return []wire.TensorSpec{{Name: name, Type: engine.Uint8, Shape: []int{-1}}}
		}
		w.Served = append(w.Served, wire.Served{Name: name, State: wire.ModelReady, Executors: 1, Loaded: 1, Cost: wire.Cost{Unit: 10 * time.Millisecond}, Tensors: &wire.TensorLimits{
			Inputs: spec("x"), Outputs: spec("y"), MaxPassItems: 8,
		}})
	}
	n.pool.Deliver(w)
	return n
}

// call is a request with a deadline; 0: none.
func (n *tiny) call(deadline time.Duration) *Call {
	from := request.New(n.pool, request.Origin{Model: "one", Arrived: time.Now(), Deadline: deadline, Holder: "key"})
	return n.Call(from, map[string]string{"first": "one", "second": "one/two"})
}

// step is a stage, and passes over what it makes.
func step(ctx context.Context, host Host, kind, network string, takes time.Duration, inputs ...string) (outputs []string, err error) {
	if _, err := host.PlanPass(network, float64(len(inputs))); err != nil {
		return nil, err
	}
	tensors := make([][]Tensor, len(inputs))
	err = host.RunStage(ctx, processors.Stage{Kind: kind, Takes: takes}, func() error {
		if err := host.HoldMemory(100); err != nil {
			return err
		}
		time.Sleep(takes)
		for i, in := range inputs {
			tensors[i] = []Tensor{{"x", engine.Uint8, []int{len(in)}, []byte(in)}}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	outputs = make([]string, len(inputs))
	err = host.RunPasses(ctx, network, []string{"y"}, tensors, func(i int, out []Tensor) error {
		outputs[i] = string(out[0].Data)
		return nil
	})
	return outputs, err
}

// run is a pipeline of two stages of 100 ms, and passes behind each.
func (n *tiny) run(ctx context.Context, c *Call) (outputs []string, err error) {
	ctx, cancel := c.LimitTime(ctx)
	defer cancel()
	outputs, err = step(ctx, c, "before", "first", 100*time.Millisecond, "ab", "c", "def")
	if err != nil {
		return nil, err
	}
	return step(ctx, c, "between", "second", 100*time.Millisecond, outputs[0]+outputs[2], outputs[1])
}

// expectNothing holds that a request that has ended leaves nothing behind, and that it asked for so many jobs.
func (n *tiny) expectNothing(c *Call, jobs int) {
	n.Helper()
	c.Close()
	open, _ := n.pool.Jobs()
	submits, cancels := n.s.Seen()
	waiting, running := n.Processors.Load()
	if open != 0 || n.Memory.Held() != 0 || len(n.held) != 0 || waiting != 0 || running != 0 || len(submits) != jobs {
		n.Errorf("%d jobs of %d asked for and %d withdrawn, %d bytes, %d tensors, %d stages that wait and %d that run are left; want none, of %d",
			open, len(submits), len(cancels), n.Memory.Held(), len(n.held), waiting, running, jobs)
	}
}

func codeOf(err error) engine.Code {
	var e *engine.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// holdSlot has another have the slot of the processor for so long.
func (n *tiny) holdSlot(takes time.Duration) {
	go func() { // ends with the test's bubble
		_, _ = n.Processors.Do(context.Background(), processors.Stage{Kind: "other", Takes: takes}, func() error { time.Sleep(takes); return nil })
	}()
	synctest.Wait()
}

// TestStagesAndPassesByTurns: what passes find comes by the inputs' places, the next stage is made of it, and the record has both.
func TestStagesAndPassesByTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newTiny(t)
		c := n.call(time.Second)
		outputs, err := n.run(t.Context(), c)
		if err != nil || strings.Join(outputs, " ") != "abdef c" {
			t.Errorf("%q, %v", outputs, err)
		}
		if r := &c.Record; r.Jobs != 5 || r.Frames.Count != 5 || r.Frames.Prepared != 200*time.Millisecond || r.Memory != 200 {
			t.Errorf("the record has %+v, %+v", r, r.Frames)
		}
		n.expectNothing(c, 5)
	})
}

// TestDeadlineInEachStage: what cannot be in time is refused before its first stage, with no job made; one that runs late in a later stage, or while
// a pass does, ends at its deadline. Nothing stays held.
func TestDeadlineInEachStage(t *testing.T) {
	for name, c := range map[string]struct {
		deadline time.Duration
		before   func(n *tiny)
		code     engine.Code
		took     time.Duration
		jobs     int
	}{
		"no time for the first stage":              {50 * time.Millisecond, nil, engine.CodeDeadline, 0, 0},
		"others before the first stage":            {300 * time.Millisecond, func(n *tiny) { n.holdSlot(250 * time.Millisecond) }, engine.CodeDeadline, 250 * time.Millisecond, 0},
		"no time for the stage between":            {150 * time.Millisecond, nil, engine.CodeDeadline, 100 * time.Millisecond, 3},
		"the first network does not answer":        {500 * time.Millisecond, func(n *tiny) { n.keep("one") }, engine.CodeDeadline, 500 * time.Millisecond, 3},
		"the second network does not answer":       {500 * time.Millisecond, func(n *tiny) { n.keep("one/two") }, engine.CodeDeadline, 500 * time.Millisecond, 5},
		"the devices are busy, as was planned for": {150 * time.Millisecond, func(n *tiny) { n.plan(20) }, engine.CodeOverloaded, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newTiny(t)
				if c.before != nil {
					c.before(n)
				}
				begun, call := time.Now(), n.call(c.deadline)
				_, err := n.run(t.Context(), call)
				if took := time.Since(begun); codeOf(err) != c.code || took != c.took {
					t.Errorf("%v after %v, want code %d after %v", err, took, c.code, c.took)
				}
				time.Sleep(time.Second) // for those beside it
				n.expectNothing(call, c.jobs)
			})
		})
	}
}

// keep has a network answer nothing.
func (n *tiny) keep(network string) {
	n.answer = func(s *wire.Submit, echo *wire.Result) *wire.Result {
		if s.Model == network {
			n.Release(echo.Output.(*engine.TensorOutput).Outputs[0].Blob)
			return nil
		}
		return echo
	}
}

// plan has another request plan for so many units.
func (n *tiny) plan(units float64) {
	other := n.call(0)
	if _, err := other.PlanPass("first", units); err != nil {
		n.Error(err)
	}
	go func() { time.Sleep(500 * time.Millisecond); other.Close() }() // ends with the test's bubble
}

// TestClientLeavesInEachStage: while it waits for a slot, in a stage, and while passes run.
func TestClientLeavesInEachStage(t *testing.T) {
	gone := errors.New("gone")
	for after, jobs := range map[time.Duration]int{50 * time.Millisecond: 0, 150 * time.Millisecond: 3, 250 * time.Millisecond: 5} {
		for _, waits := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				n := newTiny(t)
				n.keep("one/two")
				if waits {
					n.holdSlot(60 * time.Millisecond)
				}
				ctx, leave := context.WithCancelCause(t.Context())
				time.AfterFunc(after, func() { leave(gone) })
				c := n.call(0)
				if _, err := n.run(ctx, c); !errors.Is(err, gone) {
					t.Errorf("left after %v: %v", after, err)
				}
				want := jobs
				if waits && after == 150*time.Millisecond {
					want = 0 // in its first stage
				}
				if waits && after == 250*time.Millisecond {
					want = 3
				}
				time.Sleep(time.Second)
				n.expectNothing(c, want)
			})
		}
	}
}

// TestDeviceRefuses: what a device says of a pass is the request's error, as are outputs that were not asked for, and nothing stays held.
func TestDeviceRefuses(t *testing.T) {
	for network, jobs := range map[string]int{"one": 3, "one/two": 5} {
		for name, c := range map[string]struct {
			change func(r *wire.Result)
			code   engine.Code
		}{
			"no memory":      {func(r *wire.Result) { r.Output, r.Err = nil, engine.Errorf(engine.CodeOverloaded, "no memory") }, engine.CodeOverloaded},
			"another output": {func(r *wire.Result) { r.Output = &engine.TensorOutput{} }, engine.CodeInternal},
		} {
			t.Run(network+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := newTiny(t)
					n.answer = func(s *wire.Submit, echo *wire.Result) *wire.Result {
						if s.Model == network {
							n.Release(echo.Output.(*engine.TensorOutput).Outputs[0].Blob)
							c.change(echo)
						}
						return echo
					}
					call := n.call(time.Second)
					if _, err := n.run(t.Context(), call); codeOf(err) != c.code {
						t.Errorf("%v, want code %d", err, c.code)
					}
					n.expectNothing(call, jobs)
				})
			})
		}
	}
}

// TestMemoryThatIsNotThere: what never fits blames the field, what does not fit beside others is to come back.
func TestMemoryThatIsNotThere(t *testing.T) {
	n := newTiny(t)
	c, other := n.call(0), n.call(0)
	var wrong *api.Error
	if err := c.HoldMemory(1001); !errors.As(err, &wrong) || wrong.Param != "thing" || !strings.Contains(wrong.Message, "the thing takes too many bytes") {
		t.Errorf("got %v, want the field", err)
	}
	if err := other.HoldMemory(700); err != nil {
		t.Fatal(err)
	}
	if err := c.HoldMemory(400); codeOf(err) != engine.CodeOverloaded || !strings.Contains(err.Error(), "come back later") {
		t.Errorf("got %v, want a refusal for now", err)
	}
	other.ReleaseMemory(700)
	if err := c.HoldMemory(400); err != nil {
		t.Errorf("when the other has given it back: %v", err)
	}
	other.Close()
	n.expectNothing(c, 0)
}
