package httpserve

import (
	"container/list"
	"net/netip"
	"time"
)

// Bytes of answers that may wait to be taken in. Beyond these the answers that stood still for longest are cut off, which
// have stood for stillAfter at least. Pieces below leastWaiting do not count: connections and streams bound them.
const (
	maxWaiting        = 256 << 20
	maxWaitingAddress = 64 << 20
	leastWaiting      = 4 << 10
	stillAfter        = time.Second
)

// waiting is the bytes that handlers have given to be written. Guarded by its owner's mu.
type waiting struct {
	bytes   int
	from    map[netip.Prefix]int
	answers *list.List // *answer, the longest without progress first
}

// beginWait counts the bytes of an answer that are to be written, and cuts others off for them if it must.
func (c *connections) beginWait(a *answer, bytes int, now time.Time) {
	c.mu.Lock()
	w := &c.waiting
	w.bytes += bytes
	w.from[a.conn.from] += bytes
	a.waits.bytes, a.waits.still = bytes, now
	a.waits.place = w.answers.PushBack(a)
	still := w.stillestAnswers(a.conn.from, now)
	c.mu.Unlock()
	for _, victim := range still { // without mu, which net/http waits for
		victim.cutOff()
	}
	c.cutStill.Add(uint64(len(still)))
}

// advanceWait notes that a part of an answer that waits was taken in, and says whether the rest may wait.
func (c *connections) advanceWait(a *answer, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	a.waits.still = now
	c.waiting.answers.MoveToBack(a.waits.place)
	return !a.waits.givenUp
}

// endWait counts them no more.
func (c *connections) endWait(a *answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting.answers.Remove(a.waits.place)
	if !a.waits.givenUp {
		c.waiting.forget(a)
	}
	a.waits.givenUp = false
}

func (w *waiting) forget(a *answer) {
	w.bytes -= a.waits.bytes
	if w.from[a.conn.from] -= a.waits.bytes; w.from[a.conn.from] == 0 {
		delete(w.from, a.conn.from)
	}
}

// wait is an answer's part in it. Guarded by the mu of the connections.
type wait struct {
	bytes   int
	still   time.Time // since when nothing of it was taken in
	place   *list.Element
	givenUp bool // cut off, and not counted any more
}

// stillestAnswers are the answers to cut off for one from an address.
func (w *waiting) stillestAnswers(from netip.Prefix, now time.Time) (victims []*answer) {
	for e := w.answers.Front(); e != nil && (w.bytes > maxWaiting || w.from[from] > maxWaitingAddress); e = e.Next() {
		a := e.Value.(*answer)
		if now.Sub(a.waits.still) < stillAfter {
			break
		}
		if !a.waits.givenUp && (w.bytes > maxWaiting || a.conn.from == from) {
			a.waits.givenUp = true
			w.forget(a)
			victims = append(victims, a)
		}
	}
	return victims
}
