package sim

import (
	"container/heap"
	"time"
)

// loop is the clock of a simulation and what is to happen, in the order of its time; what is due at one time happens in
// the order in which it was asked for.
type loop struct {
	now    time.Duration
	events eventHeap
	order  uint64
}

// event happens at a time to come.
type event struct {
	at    time.Duration
	order uint64
	do    func() error // nil: cancelled
}

func (l *loop) after(d time.Duration, do func() error) *event {
	l.order++
	e := &event{at: l.now + d, order: l.order, do: do}
	heap.Push(&l.events, e)
	return e
}

// nextEvent is when the next event is due.
func (l *loop) nextEvent() (at time.Duration, ok bool) {
	for len(l.events) > 0 {
		if l.events[0].do != nil {
			return l.events[0].at, true
		}
		heap.Pop(&l.events)
	}
	return 0, false
}

// fireEvent lets the next event happen.
func (l *loop) fireEvent() error {
	e := heap.Pop(&l.events).(*event)
	l.now = e.at
	return e.do()
}

type eventHeap []*event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].order < h[j].order
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(*event)) }
func (h *eventHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// processor works on tasks in so many slots. If there are more tasks than slots, each gets an equal part of the time.
type processor struct {
	loop  *loop
	slots int
	tasks []*task
	since time.Duration // when the tasks' left was true
	busy  time.Duration // in which it worked on some task
}

// task is some work of a processor.
type task struct {
	left time.Duration
	done func() error
	end  *event // nil: it stands still
}

// startTask begins a task, or lets one go on that stands still.
func (p *processor) startTask(t *task) {
	p.accountTasks()
	before := p.rate()
	p.tasks = append(p.tasks, t)
	if rate := p.rate(); rate != before {
		p.scheduleEnds()
	} else {
		p.scheduleEnd(t, rate)
	}
}

// stopTask has a task stand still.
func (p *processor) stopTask(t *task) {
	p.accountTasks()
	before := p.rate()
	for i, o := range p.tasks {
		if o == t {
			p.tasks = append(p.tasks[:i], p.tasks[i+1:]...)
			break
		}
	}
	if t.end != nil {
		t.end.do, t.end = nil, nil
	}
	if p.rate() != before {
		p.scheduleEnds()
	}
}

// work is how much of a task is left now.
func (p *processor) workLeft(t *task) time.Duration {
	p.accountTasks()
	return t.left
}

// rate is the part of a second in which a second of each task's work is done.
func (p *processor) rate() float64 {
	if n := len(p.tasks); n > p.slots {
		return float64(p.slots) / float64(n)
	}
	return 1
}

// accountTasks takes what has been done since the last time off the tasks.
func (p *processor) accountTasks() {
	elapsed := p.loop.now - p.since
	p.since = p.loop.now
	if elapsed == 0 || len(p.tasks) == 0 {
		return
	}
	p.busy += elapsed
	if rate := p.rate(); rate < 1 {
		elapsed = time.Duration(float64(elapsed) * rate)
	}
	for _, t := range p.tasks {
		t.left -= elapsed
	}
}

func (p *processor) scheduleEnds() {
	rate := p.rate()
	for _, t := range p.tasks {
		if t.end != nil {
			t.end.do = nil
		}
		p.scheduleEnd(t, rate)
	}
}

func (p *processor) scheduleEnd(t *task, rate float64) {
	wait := t.left
	if rate < 1 {
		wait = time.Duration(float64(wait) / rate)
	}
	t.end = p.loop.after(max(0, wait), func() error {
		p.stopTask(t)
		return t.done()
	})
}
