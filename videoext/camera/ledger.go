package camera

import (
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/session"
)

// ledger has what is to be said of segments that are not done, so that each session gets it once. Its memory is bounded: of what is too
// much, the oldest segments become Skips, and then are left out, for which the server makes up.
type ledger struct {
	maxBytes, maxEntries int

	entries []*entry // in order of segments
	bytes   int      // of all messages
	lost    int      // segments that were given up
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
	if len(l.entries) == l.maxEntries {
		l.bytes -= l.entries[0].size()
		l.entries = slices.Delete(l.entries, 0, 1)
		l.lost++
	}
	l.entries = append(l.entries, &entry{segment: segment, frames: frames, captured: now})
}

func (e *entry) size() (n int) {
	for _, m := range e.messages {
		n += len(m.data)
	}
	return n
}

func (l *ledger) find(segment method.Segment) *entry {
	i := slices.IndexFunc(l.entries, func(e *entry) bool { return e.segment == segment })
	if i < 0 {
		return nil
	}
	return l.entries[i]
}

// add keeps a message of a segment, the first of which is that of stream A.
func (l *ledger) add(segment method.Segment, data []byte, coded bool) {
	e := l.find(segment)
	if e == nil { // it is done, or given up
		return
	}
	e.begun = true
	e.messages = append(e.messages, &message{data: data, coded: coded})
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
	if !slices.ContainsFunc(e.messages, func(m *message) bool { return m.coded }) {
		return
	}
	before := e.size()
	first := e.messages[0]
	e.messages = slices.DeleteFunc(e.messages, func(m *message) bool { return m.coded })
	if first.coded {
		skip := session.Skipped{Skip: method.Skip{Segment: e.segment, Stream: method.A, Of: e.frames}}
		e.messages = slices.Insert(e.messages, 0, &message{data: encoded(&skip), sent: first.sent})
	}
	l.bytes -= before - e.size()
	l.lost++
}

// encoded is a message that always has a form for the wire.
func encoded(m session.Message) []byte {
	data, err := session.Append(nil, m)
	if err != nil {
		panic(err) // unreachable: the message has numbers alone
	}
	return data
}

// next is the message that is to be sent now; nil: there is none. Stream A of segments is sent in their order.
func (l *ledger) next() []byte {
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

// waiting is how many bytes could be sent and are not.
func (l *ledger) waiting() (n int) {
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

// resume begins a new session, in which a segment is the first that is wanted.
func (l *ledger) resume(next method.Segment) {
	l.entries = slices.DeleteFunc(l.entries, func(e *entry) bool {
		if e.segment < next {
			l.bytes -= e.size()
		}
		return e.segment < next
	})
	for _, e := range l.entries {
		for _, m := range e.messages {
			m.sent = false
		}
	}
}

// done forgets a segment that has its results, and returns what is known of it; nil: nothing.
func (l *ledger) done(segment method.Segment) *entry {
	e := l.find(segment)
	if e != nil {
		l.bytes -= e.size()
		l.entries = slices.DeleteFunc(l.entries, func(o *entry) bool { return o == e })
	}
	return e
}
