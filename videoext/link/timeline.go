package link

import (
	"container/heap"
	"time"
)

// Timeline keeps what is to happen. The zero value is empty, at 0.
type Timeline struct {
	now  time.Duration
	list entries
	put  int
}

// Now is the time of what happened last.
func (t *Timeline) Now() time.Duration { return t.now }

// At says that something happens at a time, or now if that is past. What was said first of one time happens first.
func (t *Timeline) At(at time.Duration, what any) {
	t.put++
	heap.Push(&t.list, entry{max(at, t.now), t.put, what})
}

// Next is what happens next, at which the time is then; false at the end.
func (t *Timeline) Next() (any, bool) {
	if len(t.list) == 0 {
		return nil, false
	}
	e := heap.Pop(&t.list).(entry)
	t.now = e.at
	return e.what, true
}

type entry struct {
	at   time.Duration
	put  int
	what any
}

type entries []entry

func (e entries) Len() int      { return len(e) }
func (e entries) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *entries) Push(x any)   { *e = append(*e, x.(entry)) }

func (e entries) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].put < e[j].put
}

func (e *entries) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}
