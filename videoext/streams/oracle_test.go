package streams

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/methods"
)

// world is a camera, a link and a network that do all that they may, in any order: what is sent comes twice, late or not at all. Its books are a
// dumb version of the Core: what came first of each segment counts, and each frame has one final result, in order.
type world struct {
	*testing.T
	*rand.Rand
	core     *Core
	patience time.Duration
	deadline time.Duration
	now      time.Duration
	wake     time.Duration // 0: none is asked for
	open     []Infer       // not answered
	story    []string

	came     []book // by segments, as they were told first
	final    int    // segments with final results
	number   uint64
	last     time.Duration // of a frame
	finished bool

	skews  bool          // the camera's clock is set now and then
	skew   time.Duration // of it
	said   time.Duration // by the camera, of the last frame that came first; unsaid: of none
	breaks uint64        // where what it said went back, stood still or leapt
	told   uint64        // of them, in final results
}

// book is what a segment is known to be.
type book struct {
	of       int
	sent     map[int]time.Duration // frames that came, and their times
	high     bool                  // stream B has come, or is known not to
	inferred [2]bool               // the network was asked of its streams
	seen     map[int]bool          // frames that the network saw, on stream A
	at       time.Duration         // when the segment came
}

func (w *world) fail(format string, args ...any) {
	w.Helper()
	w.Fatalf("%s\nafter:\n%s", fmt.Sprintf(format, args...), strings.Join(w.story[max(0, len(w.story)-60):], "\n"))
}

func newWorld(t *testing.T, seed uint64, way string) *world {
	w := &world{T: t, Rand: rand.New(rand.NewPCG(seed, 7)), patience: 20 * time.Second, deadline: 2 * time.Second, said: unsaid}
	c := Config{New: func() method.Server { return &method.OneStream{How: method.Plain{}, Blank: true} }, Rate: 10, Deadline: w.deadline, Patience: w.patience}
	if way != "" {
		m, err := methods.New(way, methods.Learned{})
		if err != nil {
			t.Fatal(err)
		}
		c.New = func() method.Server { _, server := m.New(); return server }
	}
	w.core = New(c)
	return w
}

// step tells the Core an event, and holds what it asks for to the books.
func (w *world) step(e Event) (ok bool) {
	w.Helper()
	w.story = append(w.story, fmt.Sprintf("%v %T%+v", w.now, e, e))
	told, counts := w.core.Told(), w.core.Counts()
	actions, err := w.core.Step(w.now, e)
	if err != nil {
		w.story = append(w.story, "  no: "+err.Error())
		if w.core.Told() != told || w.core.Counts() != counts || len(actions) > 0 {
			w.fail("something was done although %v", err)
		}
		return false
	}
	w.note(e)
	for _, a := range actions {
		w.story = append(w.story, "  "+describe(a))
		w.take(a)
	}
	if int(w.core.Told()) != len(w.came) || w.core.Under() != len(w.came)-w.final {
		w.fail("segment %d is next and %d are under way; %d came, %d of them have final results", w.core.Told(), w.core.Under(), len(w.came), w.final)
	}
	return true
}

// note takes an event that made sense into the books.
func (w *world) note(e Event) {
	switch e := e.(type) {
	case Came:
		if e.Stream == method.A && int(e.Segment) >= len(w.came) {
			b := w.begin(int(e.Segment), e.Of)
			for i, frame := range e.Frames {
				b.sent[frame] = e.Times[i]
				if grown := e.Times[i] - w.said; w.said != unsaid && (grown <= 0 || grown > leaps/2) {
					w.breaks++
				}
				w.said = e.Times[i]
			}
		} else if e.Stream == method.B {
			w.came[e.Segment].high = true
		}
	case Missed:
		if e.Stream == method.A && int(e.Segment) >= len(w.came) {
			w.begin(int(e.Segment), e.Of)
		} else if e.Stream == method.B && int(e.Segment) < len(w.came) && e.Of == w.came[e.Segment].of {
			w.came[e.Segment].high = true
		}
	case Begun:
		w.finished = false
	}
}

func (w *world) begin(n, of int) *book {
	for len(w.came) <= n {
		w.came = append(w.came, book{of: of, sent: map[int]time.Duration{}, seen: map[int]bool{}, at: w.now})
	}
	return &w.came[n]
}

// take holds an action to the books.
func (w *world) take(a Action) {
	w.Helper()
	switch a := a.(type) {
	case Welcome:
		if int(a.Next) != len(w.came) {
			w.fail("welcome to segment %d, %d came", a.Next, len(w.came))
		}
	case Infer:
		w.noteInfer(a)
	case Done:
		if int(a.Segment) >= w.final {
			w.fail("segment %d is done, and %d have final results", a.Segment, w.final)
		}
	case Wake:
		if w.wake = a.At; a.At < w.now {
			w.fail("wake at %v", a.At)
		}
	case Deliver:
		w.deliver(a.Results)
	case Finished:
		if w.final != len(w.came) {
			w.fail("finished, and %d of %d segments have final results", w.final, len(w.came))
		}
		w.finished = true
	}
}

func (w *world) noteInfer(l Infer) {
	w.Helper()
	b := &w.came[l.Segment]
	if int(l.Segment) < w.final || l.Stream == method.B && !b.high || b.inferred[l.Stream] {
		w.fail("infer %d of what is final, did not come or was inferred", l.ID)
	}
	b.inferred[l.Stream] = true
	for _, frame := range l.Frames {
		if _, ok := b.sent[frame]; !ok && l.Stream == method.A {
			w.fail("infer %d of frame %d, which did not come", l.ID, frame)
		}
	}
	w.open = append(w.open, l)
}

func (w *world) deliver(results []Result) {
	w.Helper()
	first := results[0]
	b := &w.came[first.Segment]
	if len(results) != b.of || int(first.Segment) < w.final || first.Final && int(first.Segment) != w.final {
		w.fail("results of segment %d, of %d frames, final %v; %d is next", first.Segment, len(results), first.Final, w.final)
	}
	for i, r := range results {
		if w.number++; r.Number != w.number || r.Frame != i || r.Of != b.of || r.Final != first.Final || r.Segment != first.Segment {
			w.fail("result %d is %+v", w.number, r)
		}
		w.frame(b, &r)
	}
	if first.Final {
		w.final++
	}
}

// frame holds the result of a frame to what the network saw in it.
func (w *world) frame(b *book, r *Result) {
	w.Helper()
	at, came := b.sent[r.Frame]
	own := int(r.Segment)*100 + r.Frame
	if r.Latency != w.now-b.at || r.Late != (r.Latency > w.deadline) {
		w.fail("the latency of %+v; its segment came at %v", r, b.at)
	}
	if r.Final {
		if r.Time <= w.last && w.last > 0 || came && !w.skews && r.Time-at > time.Minute || w.last > 0 && r.Time-w.last > time.Hour {
			w.fail("frame %d of segment %d is at %v behind %v, it said %v", r.Frame, r.Segment, r.Time, w.last, at)
		}
		if w.last = r.Time; r.Discontinuity {
			w.told++
		}
	}
	switch {
	case r.Why == "" && (!came || len(r.Findings.Detections) != 1 || r.Findings.Detections[0].Class != own):
		w.fail("frame %d of segment %d, which came: %v, is said to have been seen, with %+v", r.Frame, r.Segment, came, r.Findings)
	case r.Why != "" && b.seen[r.Frame] && w.now-b.at < w.patience:
		w.fail("frame %d of segment %d was seen, and is said not to be: %s", r.Frame, r.Segment, r.Why)
	}
	for _, d := range r.Findings.Detections {
		if d.Class/100 > int(r.Segment) {
			w.fail("frame %d of segment %d has what is in frame %d of segment %d", r.Frame, r.Segment, d.Class%100, d.Class/100)
		}
	}
}

// segment is what a camera has of a segment: how many frames, and the time of the first.
func (w *world) segment(n int) (of int, first time.Duration) {
	of = 1 + (n*7+n/3)%4
	return of, time.Duration(n)*500*time.Millisecond + time.Millisecond + w.skew
}

// leaps is by how much a camera's clock leaps: more than a Core believes.
const leaps = 100 * time.Hour

const unsaid = time.Duration(math.MinInt64)

// send has the camera send some of the frames of a segment, of another number of frames if it lies.
func (w *world) send(n int, stream method.Stream, lies bool) {
	of, first := w.segment(n)
	e := Came{Segment: method.Segment(n), Stream: stream, Of: of}
	for frame := range of {
		if w.IntN(4) > 0 || frame == of-1 && len(e.Frames) == 0 {
			e.Frames, e.Times = append(e.Frames, frame), append(e.Times, first+time.Duration(frame)*100*time.Millisecond)
		}
	}
	if stream == method.B && n < len(w.came) { // the camera sends again what it has sent
		e.Of, e.Frames, e.Times = w.came[n].of, nil, nil
		for _, frame := range slices.Sorted(keys(w.came[n].sent)) {
			e.Frames, e.Times = append(e.Frames, frame), append(e.Times, w.came[n].sent[frame])
		}
		if len(e.Frames) == 0 {
			return
		}
	}
	if lies {
		e.Of++
	}
	w.step(e)
}

func keys[V any](m map[int]V) func(func(int) bool) {
	return func(yield func(int) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func (w *world) miss(n int, stream method.Stream) {
	of, _ := w.segment(n)
	if n < len(w.came) {
		of = w.came[n].of
	}
	w.step(Missed{Segment: method.Segment(n), Stream: stream, Of: of, Why: []string{"", "it is broken"}[w.IntN(2)]})
}

// answerOne has the network answer one of what is open: some frames it does not see.
func (w *world) answerOne() {
	if len(w.open) == 0 {
		return
	}
	i := w.IntN(len(w.open))
	l := w.open[i]
	share := []int{0, 0, 1, 4}[w.IntN(4)]
	e := answer(l, func(int) string {
		if w.IntN(4) < share {
			return "refused"
		}
		return ""
	})
	if l.Stream == method.A && int(l.Segment) >= w.final {
		for k, frame := range l.Frames {
			w.came[l.Segment].seen[frame] = e.Why[k] == ""
		}
	}
	if w.IntN(5) > 0 { // else the same comes once more
		w.open = slices.Delete(w.open, i, i+1)
		w.step(e)
		return
	}
	w.step(e)
	w.open = slices.DeleteFunc(w.open, func(o Infer) bool { return o.ID == l.ID })
	w.step(e)
}

// pass lets time pass, and wakes the Core when it wants.
func (w *world) pass(d time.Duration) {
	until := w.now + d
	for w.wake > 0 && w.wake <= until {
		w.now, w.wake = max(w.now, w.wake), 0
		w.step(Tick{})
	}
	w.now = until
}

// TestOracle: whatever comes twice, late or not at all, each frame has one final result, in order and of its own frame.
func TestOracle(t *testing.T) {
	for _, way := range []string{"", "dds:preset=paper,frames=4", "dds:preset=tuned,frames=4", "mpeg", "eaar"} {
		for seed := range uint64(100) {
			w := newWorld(t, seed, way)
			w.skews = seed%2 == 1
			w.step(Begun{})
			for range 150 {
				w.act()
			}
			for w.step(Begun{}); len(w.open) > 0; {
				w.answerOne()
			}
			w.step(Ended{})
			for i := 0; (!w.finished || len(w.open) > 0) && i < 100; i++ {
				w.answerOne()
				w.pass(time.Minute)
			}
			if n := w.core.Counts().Discontinuities; n != w.breaks || w.told != w.breaks {
				w.fail("%q, seed %d: %d discontinuities are counted and %d told of, there were %d", way, seed, n, w.told, w.breaks)
			}
			frames := uint64(0)
			for _, b := range w.came {
				frames += uint64(b.of)
			}
			if !w.finished || w.final != len(w.came) || w.core.Counts().Frames != frames {
				w.fail("%q, seed %d: finished %v, %d of %d segments have final results, %d of %d frames", way, seed, w.finished, w.final, len(w.came), w.core.Counts().Frames, frames)
			}
		}
	}
}

// act does one of the things that happen.
func (w *world) act() {
	next := len(w.came)
	old := next
	if next > 0 {
		old = w.IntN(next)
		if w.IntN(2) == 0 && w.final < next {
			old = w.final + w.IntN(next-w.final)
		}
	}
	switch n := w.IntN(40); {
	case n < 9:
		w.send(next, method.A, false)
	case n == 9:
		w.send(next+1+w.IntN(3), method.A, false)
	case n == 10:
		w.miss(next+w.IntN(2), method.A)
	case n < 13:
		w.send(old, method.A, w.IntN(5) == 0)
	case n < 18:
		w.send(old, method.B, w.IntN(9) == 0)
	case n < 20:
		w.miss(old, method.B)
	case n == 20:
		w.send(next+w.IntN(9000), method.B, false)
	case n == 21:
		w.send(next+maxGap+1+w.IntN(9000), method.A, false)
	case n == 22:
		w.step(Begun{})
	case n == 23 && w.IntN(3) == 0:
		w.step(Ended{})
		w.step(Begun{})
	case n == 24:
		w.pass(time.Duration(w.IntN(30)) * time.Second)
	case n < 28:
		w.pass(time.Duration(w.IntN(500)) * time.Millisecond)
	case n == 28 && w.skews:
		w.skew = []time.Duration{0, leaps, -time.Duration(next) * 500 * time.Millisecond, w.skew - time.Second, w.skew + 100*time.Millisecond}[w.IntN(5)]
	default:
		w.answerOne()
	}
}
