package camera

import (
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/session"
)

// ledger has what is to be said of segments that are not done, so that each session gets it once. Its bytes are bounded: of what is too
// much, the oldest segments become Skips. How many segments there are is bounded by those who open them.
type ledger struct {
	maxBytes int

	entries []*entry // in order of segments
	bytes   int      // of all messages
}

// entry is a segment.
type entry struct {
	segment  method.Segment
	frames   int
	captured time.Duration // its last frame
	begun    bool          // its first message, on stream A, is there
	messages []*message    // in the order in which they came
	sent     [2]int        // bytes of what was encoded of each stream
}

// message is one of a segment.
type message struct {
	data  []byte
	coded bool // it has frames
	sent  bool // or being sent, in the session that is
}

// open adds a segment, behind all others.
func (l *ledger) open(segment method.Segment, frames int, now time.Duration) {
	l.entries = append(l.entries, &entry{segment: segment, frames: frames, captured: now})
}

func (e *entry) messageBytes() (n int) {
	for _, m := range e.messages {
		n += len(m.data)
	}
	return n
}

func (l *ledger) findEntry(segment method.Segment) *entry {
	i := slices.IndexFunc(l.entries, func(e *entry) bool { return e.segment == segment })
	if i < 0 {
		return nil
	}
	return l.entries[i]
}

// place is where a message stands among those of a segment: that on stream A before others, which may be there while A is encoded.
type place bool

const (
	first place = true
	later place = false
)

// placeOf is the place of a stream's message.
func placeOf(s method.Stream) place { return s == method.A }

// addMessage keeps a message of a segment.
func (l *ledger) addMessage(segment method.Segment, at place, data []byte, coded bool) {
	e := l.findEntry(segment)
	if e == nil { // it is done
		return
	}
	m := &message{data: data, coded: coded}
	if at == first {
		e.begun = true
		e.messages = slices.Insert(e.messages, 0, m)
	} else {
		e.messages = append(e.messages, m)
	}
	l.bytes += len(data)
	for _, old := range l.entries {
		if l.bytes <= l.maxBytes {
			return
		}
		l.giveUp(old)
	}
}

// giveUp leaves nothing of the frames of a segment. In the session that has them already nothing is said of that.
func (l *ledger) giveUp(e *entry) {
	if !e.begun || !slices.ContainsFunc(e.messages, func(m *message) bool { return m.coded }) {
		return
	}
	before := e.messageBytes()
	begin := e.messages[0]
	e.messages = slices.DeleteFunc(e.messages, func(m *message) bool { return m.coded })
	if begin.coded {
		skip := session.Skipped{Skip: method.Skip{Segment: e.segment, Stream: method.A, Of: e.frames}}
		e.messages = slices.Insert(e.messages, 0, &message{data: encodeMessage(&skip), sent: begin.sent})
	}
	l.bytes -= before - e.messageBytes()
}

// encodeMessage is a message that always has a form for the wire.
func encodeMessage(m session.Message) []byte {
	data, err := session.Append(nil, m)
	if err != nil {
		panic(err) // unreachable: the message has numbers alone
	}
	return data
}

// nextMessage is the message that is to be sent now; nil: there is none. Stream A of segments is sent in their order.
func (l *ledger) nextMessage() []byte {
	for _, e := range l.entries {
		if !e.begun {
			return nil
		}
		for _, m := range e.messages {
			if !m.sent {
				m.sent = true
				return m.data
			}
		}
	}
	return nil
}

// unsentBytes is how many bytes could be sent and are not.
func (l *ledger) unsentBytes() (n int) {
	for _, e := range l.entries {
		if !e.begun {
			break
		}
		for _, m := range e.messages {
			if !m.sent {
				n += len(m.data)
			}
		}
	}
	return n
}

// resumeSession begins a new session, in which a segment is the first of which the server has nothing. It has the messages on stream A of
// those before, until it is started again; what was said of them later may not have come.
func (l *ledger) resumeSession(next method.Segment) {
	for _, e := range l.entries {
		for i, m := range e.messages {
			m.sent = i == 0 && e.segment < next
		}
	}
}

// clear forgets all segments.
func (l *ledger) clear() { l.entries, l.bytes = nil, 0 }

// removeDone forgets the segments up to one, which have their results, and returns them.
func (l *ledger) removeDone(last method.Segment) []*entry {
	n := 0
	for n < len(l.entries) && l.entries[n].segment <= last {
		l.bytes -= l.entries[n].messageBytes()
		n++
	}
	done := slices.Clone(l.entries[:n])
	l.entries = slices.Delete(l.entries, 0, n)
	return done
}
