package camera

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/session"
)

// note is a message in a list without any structure.
type note struct {
	segment method.Segment
	a       bool // on stream A
	data    []byte
	coded   bool
	sent    bool // in this session
}

// listed is the ledger as dumb as it can be: one list, which is gone through for each question.
type listed struct {
	maxBytes int
	opened   method.Segment // all before have been opened
	done     method.Segment // the first that is not done
	notes    []*note
}

func (l *listed) bytes() (n int) {
	for _, m := range l.notes {
		n += len(m.data)
	}
	return n
}

// of are the messages of a segment, that on stream A first; none while that is not there.
func (l *listed) of(segment method.Segment) (all []*note) {
	for _, a := range []bool{true, false} {
		for _, m := range l.notes {
			if m.segment == segment && m.a == a {
				all = append(all, m)
			}
		}
		if len(all) == 0 {
			return nil
		}
	}
	return all
}

func (l *listed) add(n *note) {
	l.notes = append(l.notes, n)
	for segment := l.done; segment < l.opened && l.bytes() > l.maxBytes; segment++ {
		for _, m := range l.of(segment) {
			if m.coded && m.a {
				*m = note{segment: segment, a: true, data: skipOf(segment), sent: m.sent}
			} else if m.coded {
				l.notes = slices.DeleteFunc(l.notes, func(o *note) bool { return o == m })
			}
		}
	}
}

func skipOf(segment method.Segment) []byte {
	return encodeMessage(&session.Skipped{Skip: method.Skip{Segment: segment, Of: 10}})
}

func (l *listed) next() *note {
	for segment := l.done; segment < l.opened; segment++ {
		all := l.of(segment)
		if all == nil {
			return nil
		}
		for _, m := range all {
			if !m.sent {
				m.sent = true
				return m
			}
		}
	}
	return nil
}

// far is a server at the end of a connection that loses what is on its way when it breaks.
type far struct {
	way  []*note
	came map[string]int // by what is said, over all sessions
	told method.Segment // the first of which nothing came on stream A
	done method.Segment // the first without final results
}

func (f *far) take(t *testing.T, m *note) {
	if m.a && m.segment < f.told {
		t.Errorf("stream A of segment %d comes, and the server has it since before the session", m.segment)
	}
	if m.a && m.segment == f.told {
		f.told++
	} else if m.segment >= f.told {
		t.Errorf("a message of segment %d comes before stream A of %d", m.segment, f.told)
	}
	f.came[fmt.Sprint(m.segment, m.a, !m.coded && !m.a)]++
}

// ledgers are both, and what goes on around them.
type ledgers struct {
	*testing.T
	r      *rand.Rand
	tested ledger
	dumb   listed
	far    far
	heard  method.Segment            // the camera knows that all before are done
	extra  map[method.Segment][]bool // messages that are to come, of each segment: whether they are coded
}

func (l *ledgers) add(segment method.Segment, a, coded bool) {
	data := fmt.Appendf(nil, "%d %v %v ", segment, a, coded)
	if coded {
		data = append(data, make([]byte, 10+l.r.IntN(400))...)
	}
	if a && !coded {
		data = skipOf(segment)
	}
	at := later
	if a {
		at = first
	}
	l.tested.addMessage(segment, at, data, coded)
	if segment >= l.heard {
		l.dumb.add(&note{segment: segment, a: a, data: data, coded: coded})
	}
}

// send sends the next message.
func (l *ledgers) send() bool {
	want, got := l.dumb.next(), l.tested.nextMessage()
	if want == nil && got == nil {
		return false
	}
	if want == nil || !bytes.Equal(want.data, got) {
		l.Fatalf("the next message is %.40q, want %+v", got, want)
	}
	if want.segment < l.heard {
		l.Errorf("segment %d is sent, and the camera knows that all before %d are done", want.segment, l.heard)
	}
	copied := *want
	l.far.way = append(l.far.way, &copied)
	return true
}

// arrive has the first of what is on its way arrive.
func (l *ledgers) arrive() {
	if len(l.far.way) > 0 {
		l.far.take(l.T, l.far.way[0])
		l.far.way = l.far.way[1:]
	}
}

// hear tells the camera that all before a segment are done, perhaps not for the first time.
func (l *ledgers) hear(before method.Segment) {
	var gone []method.Segment
	for _, e := range l.tested.removeDone(before - 1) {
		gone = append(gone, e.segment)
	}
	for n, segment := range gone {
		if segment != l.heard+method.Segment(n) {
			l.Errorf("segments %v are done, of %d to %d", gone, l.heard, before-1)
		}
	}
	if before > l.heard {
		if len(gone) != int(before-l.heard) {
			l.Errorf("segments %v are done, of %d to %d", gone, l.heard, before-1)
		}
		l.heard, l.dumb.done = before, before
		l.dumb.notes = slices.DeleteFunc(l.dumb.notes, func(m *note) bool { return m.segment < before })
	}
}

// resume begins a session, perhaps with a server that was killed, and has what is final alone.
func (l *ledgers) resume() {
	l.far.way = nil
	if l.r.IntN(4) == 0 {
		l.far.told = l.far.done
	}
	l.tested.resumeSession(l.far.told)
	for _, m := range l.dumb.notes {
		m.sent = m.a && m.segment < l.far.told
	}
	l.hear(l.far.done)
}

func (l *ledgers) step() {
	switch l.r.IntN(9) {
	case 0:
		if len(l.tested.entries) < maxUnderWay {
			l.tested.open(l.dumb.opened, 10, 0)
			l.dumb.opened++
		}
	case 1, 2: // stream A is encoded, in the order of segments
		if n := l.begun(); n < l.dumb.opened {
			l.add(n, true, l.r.IntN(4) > 0)
		}
	case 3: // stream B, or results, of any segment, which may be done meanwhile
		if n := l.begun(); n > 0 {
			segment := n - 1 - method.Segment(l.r.IntN(int(min(n, 4))))
			coded := l.r.IntN(2) > 0
			if !slices.Contains(l.extra[segment], coded) {
				l.extra[segment] = append(l.extra[segment], coded)
				l.add(segment, false, coded)
			}
		}
	case 4, 5:
		l.send()
	case 6:
		l.arrive()
	case 7: // final results, of which the camera may not hear
		if l.far.done < l.far.told {
			l.far.done++
		}
		if l.r.IntN(2) > 0 {
			l.hear(max(0, l.far.done-method.Segment(l.r.IntN(2)))) // and may hear twice
		}
	case 8:
		if l.r.IntN(6) == 0 {
			l.resume()
		}
	}
}

// begun is the first segment that has no message on stream A yet.
func (l *ledgers) begun() method.Segment {
	for segment := l.heard; segment < l.dumb.opened; segment++ {
		if l.dumb.of(segment) == nil {
			return segment
		}
	}
	return l.dumb.opened
}

// bounded holds that no frames are kept beyond the bound.
func (l *ledgers) bounded() {
	sum, frames := 0, false
	for _, e := range l.tested.entries {
		sum += e.messageBytes()
		frames = frames || slices.ContainsFunc(e.messages, func(m *message) bool { return m.coded })
	}
	if sum != l.tested.bytes || sum != l.dumb.bytes() || frames && sum > l.tested.maxBytes {
		l.Fatalf("%d bytes are kept, counted as %d, want %d, with frames: %v; %d are the most", sum, l.tested.bytes, l.dumb.bytes(), frames, l.tested.maxBytes)
	}
}

// TestLedger: whatever is lost, heard twice or late, the ledger says what a list says, sends nothing that is done or that a session has, keeps its
// bytes within their bound, and in the end the server has all that was said of each segment.
func TestLedger(t *testing.T) {
	for seed := range uint64(60) {
		const bound = 1500
		l := &ledgers{
			T: t, r: rand.New(rand.NewPCG(seed, 1)), tested: ledger{maxBytes: bound}, dumb: listed{maxBytes: bound}, far: far{came: map[string]int{}},
			extra: map[method.Segment][]bool{},
		}
		for range 400 {
			l.step()
			l.bounded()
			waits := 0
			for segment := l.heard; segment < l.begun(); segment++ {
				for _, m := range l.dumb.of(segment) {
					if !m.sent {
						waits += len(m.data)
					}
				}
			}
			if got := l.tested.unsentBytes(); got != waits {
				t.Fatalf("seed %d: %d bytes wait, want %d", seed, got, waits)
			}
		}
		l.resume()
		for l.begun() < l.dumb.opened {
			l.add(l.begun(), true, true)
		}
		for l.send() {
			l.arrive()
		}
		if l.far.told != l.dumb.opened {
			t.Errorf("seed %d: the server has segments up to %d, of %d", seed, l.far.told, l.dumb.opened)
		}
		for segment, all := range l.extra {
			if slices.Contains(all, false) && segment >= l.far.done && l.far.came[fmt.Sprint(segment, false, true)] == 0 {
				t.Errorf("seed %d: results of segment %d never came", seed, segment)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
