// Package host simulates the processors of a host and a device beside them: requests whose parts are CPU stages and passes, in
// the order of scheduler/stages or of none. Processors are shared by those that run, as an operating system does; the device takes one pass at a time.
package host

import (
	"iter"
	"time"

	"github.com/prefillonly/prefillonly/scheduler/stages"
)

// Part is a CPU stage or a pass of a request.
type Part struct {
	Kind   string
	Takes  time.Duration // about, as is known before
	Took   time.Duration // of one processor, or of the device
	Device bool
	Chunk  time.Duration // after which it may let another stage go first; 0: it cannot be interrupted
}

// Request is what a client wants done, part by part.
type Request struct {
	At     time.Duration // since the beginning
	Within time.Duration // deadline
	Kind   string
	Parts  []Part
}

// Host is what it is done on.
type Host struct {
	Processors int
	Threads    int // of the processors that a pass computes with; 0: the device is apart from them
}

// System is which stages run at a time.
type System struct {
	Sequential bool              // those of one request, until it has ended
	Free       bool              // all
	Slots      stages.Parameters // otherwise
	Rest       bool              // askers tell what comes after a stage, and that nothing was done before the first
	Yields     bool              // stages that can be interrupted let others go first
}

// Record is what became of a request.
type Record struct {
	Request
	Answered bool            // not dropped or refused
	Latency  time.Duration   // of what was answered
	Waited   []time.Duration // of each part that began, for a slot or the device
	Ran      []time.Duration // of each part that ended
}

// Late says whether the request's deadline was not kept.
func (r *Record) Late() bool { return !r.Answered || r.Latency > r.Within }

// Processors is the time of CPU stages that ended.
func (r *Record) Processors() (sum time.Duration) {
	for i := range r.Ran {
		if !r.Parts[i].Device {
			sum += r.Parts[i].Took
		}
	}
	return sum
}

// Run plays requests, in the order of their coming, until all have ended.
func (h Host) Run(s System, requests iter.Seq[Request]) []*Record {
	w := &world{Host: h, System: s, trips: map[string]float64{}, calls: map[uint64]*call{}}
	if !s.Sequential && !s.Free {
		w.core = stages.New(s.Slots)
	}
	next, stop := iter.Pull(requests)
	defer stop()
	coming, more := next()
	for {
		ends, runs := w.nextEnd()
		if more && (!runs || seconds(coming.At) <= ends) {
			w.advanceTo(seconds(coming.At))
			w.addRequest(coming)
			coming, more = next()
		} else if runs {
			w.advanceTo(ends)
			w.endThreads()
		} else {
			return w.records
		}
	}
}

func seconds(d time.Duration) float64 { return d.Seconds() }

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// tripWeight is what one part counts in the mean of trips.
const tripWeight = 0.2

// epoch is when a simulation begins.
var epoch = time.Unix(1_000_000, 0)

// world is a simulation at an instant.
type world struct {
	Host
	System
	now      float64 // seconds
	core     *stages.Core
	calls    map[uint64]*call   // that wait for a slot or have one
	threads  []*thread          // that run on processors
	apart    *thread            // on a device of its own
	queue    []*call            // for the device, the first has it
	behind   []*call            // of a Sequential System, the first has the host
	trips    map[string]float64 // seconds that parts of a kind take more than is known before: the black box that a device and the wait for a slot are
	records  []*Record
	identity uint64
}

// call is a request on its way.
type call struct {
	record *Record
	part   int
	id     uint64  // of its stage
	asked  float64 // for its part
	began  float64 // its part, the first time
	since  float64 // that it runs without a break
	held   float64 // seconds for which its part had a slot
	left   float64 // seconds of its part
}

func (c *call) at() Part { return c.record.Parts[c.part] }

// thread is something that runs.
type thread struct {
	call   *call
	lasts  float64 // seconds of a processor, until its part ends or lets another go first
	left   float64 // of them
	weight float64
}

func newThread(c *call, lasts, weight float64) *thread {
	return &thread{call: c, lasts: lasts, left: lasts, weight: weight}
}

func (w *world) time() time.Time { return epoch.Add(duration(w.now)) }

func (w *world) addRequest(r Request) {
	c := &call{record: &Record{Request: r}}
	w.records = append(w.records, c.record)
	if !w.Sequential {
		w.beginPart(c)
		return
	}
	if w.behind = append(w.behind, c); len(w.behind) == 1 {
		w.beginPart(c)
	}
}

// beginPart has a call wait for its next part, or ends it after the last.
func (w *world) beginPart(c *call) {
	if c.part == len(c.record.Parts) {
		c.record.Answered, c.record.Latency = true, duration(w.now)-c.record.At
		w.endRequest()
		return
	}
	c.asked, c.held, c.left = w.now, 0, seconds(c.at().Took)
	switch {
	case c.at().Device:
		if w.queue = append(w.queue, c); len(w.queue) == 1 {
			w.startPass()
		}
	case w.core == nil:
		w.startPart(c)
	default:
		w.askForSlot(c)
	}
}

// endRequest lets the next request of a Sequential System begin.
func (w *world) endRequest() {
	if w.Sequential {
		if w.behind = w.behind[1:]; len(w.behind) > 0 {
			w.beginPart(w.behind[0])
		}
	}
}

func (w *world) askForSlot(c *call) {
	w.identity++
	c.id = w.identity
	w.calls[c.id] = c
	a := stages.Ask{ID: c.id, Kind: c.at().Kind, Takes: c.at().Takes, Yields: w.Yields && c.at().Chunk > 0, Came: epoch.Add(c.record.At), Due: epoch.Add(c.record.At + c.record.Within)}
	if w.Rest {
		a.First = c.part == 0
		for _, p := range c.record.Parts[c.part+1:] {
			a.Rest += p.Takes + duration(w.trips[p.Kind])
		}
	}
	w.stepCore(a)
}

// stepCore has the core take an event, and does what it says.
func (w *world) stepCore(event any) {
	for _, a := range w.core.Step(w.time(), event) {
		c := w.calls[a.ID]
		if a.Verdict == stages.Granted {
			w.startPart(c)
		} else {
			delete(w.calls, a.ID)
		}
	}
}

// startPart runs the part of a call, or the rest of it.
func (w *world) startPart(c *call) {
	if len(c.record.Waited) == c.part {
		c.began = w.now
		c.record.Waited = append(c.record.Waited, duration(w.now-c.asked))
	}
	c.since = w.now
	lasts := c.left
	if chunk := c.at().Chunk; w.Yields && chunk > 0 {
		lasts = min(lasts, seconds(chunk))
	}
	w.threads = append(w.threads, newThread(c, lasts, 1))
}

func (w *world) startPass() {
	c := w.queue[0]
	c.began, c.since = w.now, w.now
	c.record.Waited = append(c.record.Waited, duration(w.now-c.asked))
	t := newThread(c, c.left, float64(w.Threads))
	if w.Threads == 0 {
		w.apart = t
	} else {
		w.threads = append(w.threads, t)
	}
}
