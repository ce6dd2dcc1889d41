package sim

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler"
)

// decide is an Order.
type decide func(d *Desk)

func (f decide) Decide(d *Desk) { f(d) }

// twoModels is a device of two models of a second to load and a second a frame, with room for one.
func twoModels(aside bool) Executor {
	return Executor{
		Name: "gpu", Weights: []uint64{100, 100}, Memory: 150, LoadRate: 100, Aside: aside,
		Models: []Model{{Name: "a", Batches: []time.Duration{time.Second}, Frames: 1, Pieces: []uint32{0}}, {Name: "b", Cost: Cost{Token: 1}, Frames: 9, Pieces: []uint32{1}}},
	}
}

func frames(n int, model string) (list []Request) {
	for range n {
		list = append(list, Request{Model: model, Frames: 1})
	}
	return list
}

func TestWhatNoDeviceCanDoIsRefused(t *testing.T) {
	var first []*Job
	for _, tt := range []struct {
		order decide
		want  string
	}{
		{func(d *Desk) { d.Run(d.Arrived[0]) }, `gpu is told to run model "a", whose weights are not there`},
		{func(d *Desk) { d.Load(0, []uint32{0, 1}) }, `gpu is told to load 200 bytes of model "a", 50 more than it has room for`},
		{func(d *Desk) { d.Load(0, []uint32{0}); d.Load(0, nil) }, `gpu is told to load while it loads`},
		{func(d *Desk) {
			if len(d.Arrived) > 0 {
				first = d.Arrived[:2:2]
				d.Load(0, []uint32{0})
			} else {
				d.Run(first...)
			}
		}, `gpu is told to run 2 frames of model "a", which takes 1 to 1`},
		{func(*Desk) {}, `2 requests will never be answered: no executor has anything to do`},
	} {
		_, err := World{Scheduler: NewDesk(tt.order), Executors: []Executor{twoModels(true)}, Requests: slices.Values(frames(2, "a"))}.Run()
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
}

// TestLoadsTakeTheirTimeOfTheDevice: a load and a pass that begin together take a second each on a device whose loads go
// beside it, and two where they take its time.
func TestLoadsTakeTheirTimeOfTheDevice(t *testing.T) {
	for aside, want := range map[bool]time.Duration{true: 2 * time.Second, false: 3 * time.Second} {
		e := twoModels(aside)
		e.Memory = 0
		var waiting []*Job
		loads := 0
		order := decide(func(d *Desk) {
			waiting = append(waiting, d.Arrived...)
			if !d.Loading && loads < 2 {
				d.Load(loads, []uint32{uint32(loads)})
				loads++
			}
			if loads == 2 && len(waiting) > 0 && !d.Running {
				d.Run(waiting[0])
				waiting = waiting[1:]
			}
		})
		out, err := World{Scheduler: NewDesk(order), Executors: []Executor{e}, Requests: slices.Values(frames(1, "a"))}.Run()
		if err != nil {
			t.Fatal(err)
		}
		if r := out.Records[0]; r.Done != want || r.Device != time.Second || out.Loaded[0] != 200 {
			t.Errorf("aside %v: done at %v after %v of the device, %d bytes loaded; want %v, 1s and 200", aside, r.Done, r.Device, out.Loaded[0], want)
		}
	}
}

// TestClientsGoOnUntilTheEnd: a client that sends at once when it has its answer is cut off at the end of the simulation.
func TestClientsGoOnUntilTheEnd(t *testing.T) {
	e := gpu()
	var again func(Record) (Request, bool)
	again = func(r Record) (Request, bool) {
		return Request{Tokens: prompt(1, int(r.Pass), 0, 200), Then: again}, true
	}
	core, err := NewCore(config("fcfs"))
	if err != nil {
		t.Fatal(err)
	}
	q := Request{Tokens: prompt(1, 99, 0, 200), Then: again}
	out, err := World{Scheduler: core, Executors: []Executor{e}, Requests: slices.Values([]Request{q}), Until: seconds(1)}.Run()
	if err != nil {
		t.Fatal(err)
	}
	var done []time.Duration // a pass takes 0.3 s
	for _, r := range out.Records {
		done = append(done, r.Done)
	}
	if want := []time.Duration{seconds(.3), seconds(.6), seconds(.9), 0}; !slices.Equal(done, want) {
		t.Errorf("answers at %v, want %v", done, want)
	}
}

// script is a Scheduler that sends what it has for a time.
type script struct {
	at   []time.Duration
	send []wire.Message
}

func (s *script) Wake() (time.Duration, bool) {
	if len(s.at) == 0 {
		return 0, false
	}
	return s.at[0], true
}

func (s *script) Step(_ time.Duration, _ scheduler.PeerID, msg wire.Message) (out []scheduler.Envelope) {
	switch m := msg.(type) {
	case nil:
		out = append(out, scheduler.Envelope{To: "gpu", Msg: s.send[0]})
		s.at, s.send = s.at[1:], s.send[1:]
	case *wire.Done:
		for _, it := range m.Items {
			out = append(out, scheduler.Envelope{To: frontend, Msg: &wire.Result{Job: it.Job, Output: it.Output, Finish: 1}})
		}
	}
	return out
}

// TestNestedPassIsAborted: a pass that another was nested in goes on when that is aborted, and what it had waited for is lost.
func TestNestedPassIsAborted(t *testing.T) {
	work := frames(2, "b")
	run := func(pass wire.PassID, nested bool) *wire.Run {
		return &wire.Run{Pass: pass, Model: "b", Nested: nested, Items: []wire.RunItem{{Job: 1, Work: &wire.TensorItem{}}}}
	}
	outer, inner := run(1, false), run(2, true)
	outer.Items[0].Work.(*wire.TensorItem).Frames = 4
	inner.Items[0].Work.(*wire.TensorItem).Frames = 9
	inner.Items[0].Job = 2
	s := &script{
		at:   []time.Duration{0, seconds(1.5), seconds(3)},
		send: []wire.Message{outer, inner, &wire.Abort{Pass: 2}},
	}
	e := twoModels(true)
	e.Weights, e.Models[0].Pieces, e.Models[1].Pieces, e.Models[1].Step = nil, nil, nil, time.Second
	out, err := World{Scheduler: s, Executors: []Executor{e}, Requests: slices.Values(work), Until: seconds(60)}.Run()
	if err != nil {
		t.Fatal(err)
	}
	// The nested one begins at the step's end, at 2 s, and runs for a second in vain.
	if r := out.Records; r[0].Done != seconds(5) || r[1].Done != 0 {
		t.Errorf("the outer pass ends at %v, the nested at %v; want 5s and never", r[0].Done, r[1].Done)
	}
}
