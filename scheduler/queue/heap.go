package queue

// element is what a minHeap holds: it knows its order, and is told its position.
type element[T any] interface {
	before(other T) bool
	moved(to int)
}

// minHeap is a binary heap whose elements know where they are, so that any of them can be moved or
// taken out in O(log n).
type minHeap[T element[T]] []T

func (h *minHeap[T]) push(e T) {
	*h = append(*h, e)
	h.siftUp(len(*h) - 1)
}

// remove takes out the element at position i.
func (h *minHeap[T]) remove(i int) {
	old := *h
	last := len(old) - 1
	moved := old[last]
	var none T
	old[last] = none
	*h = old[:last]
	if i < last {
		old[i] = moved
		h.fix(i)
	}
}

// fix restores the order when the element at position i has changed its own, or is a new one.
func (h minHeap[T]) fix(i int) {
	if !h.siftDown(i) {
		h.siftUp(i)
	}
}

func (h minHeap[T]) siftUp(i int) {
	e := h[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !e.before(h[parent]) {
			break
		}
		h[i] = h[parent]
		h[i].moved(i)
		i = parent
	}
	h[i] = e
	e.moved(i)
}

// siftDown says whether the element has moved.
func (h minHeap[T]) siftDown(i int) bool {
	e, from := h[i], i
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if right := child + 1; right < len(h) && h[right].before(h[child]) {
			child = right
		}
		if !h[child].before(e) {
			break
		}
		h[i] = h[child]
		h[i].moved(i)
		i = child
	}
	h[i] = e
	e.moved(i)
	return i != from
}
