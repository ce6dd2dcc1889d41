package feeds

import "slices"

// nexus is the order of the GEMEL paper's variant of Nexus. Models take turns, those that share weights beside each other;
// one without a frame in time is passed over. The next model is loaded, whole, while one runs, and what ran most
// recently makes room.
type nexus struct {
	plan
	capacity int64
	chunks   []piece
	of       [][]int // chunks of each model
	users    []int   // of each chunk: models that are there or coming
	bytes    int64   // of chunks with users
	resident []bool  // models
	coming   int     // the model being loaded; none is -1
	turns    []int   // models in the order of their turns
	turn     int     // position of the model that runs, or of the one to run next
	next     int     // position of the model that is loaded for its turn; none is -1
	recent   []int   // models in the order in which they ran last, the newest last
	area     int64   // of the pass that runs
}

func newNexus(w Workload, memory Memory, merged bool, p plan) *nexus {
	n := &nexus{
		plan: p, capacity: w.deviceCapacity(memory), chunks: w.weightChunks(merged),
		of: make([][]int, len(w.models)), resident: make([]bool, len(w.models)), coming: -1, next: -1,
	}
	n.users = make([]int, len(n.chunks))
	for c, piece := range n.chunks {
		for _, i := range piece.models {
			n.of[i] = append(n.of[i], c)
		}
	}
	n.arrangeModels()
	n.recent = slices.Clone(n.turns)
	return n
}

// arrangeModels puts beside each other what shares most, beginning with the first model.
func (n *nexus) arrangeModels() {
	left := make([]int, len(n.of))
	for i := range left {
		left[i] = i
	}
	for len(left) > 0 {
		next := 0
		if len(n.turns) > 0 {
			last := n.turns[len(n.turns)-1]
			for k, i := range left {
				if n.sharedBytes(last, i) > n.sharedBytes(last, left[next]) {
					next = k
				}
			}
		}
		n.turns = append(n.turns, left[next])
		left = slices.Delete(left, next, next+1)
	}
}

func (n *nexus) sharedBytes(a, b int) (bytes int64) {
	for _, c := range n.of[a] {
		if slices.Contains(n.chunks[c].models, b) {
			bytes += n.chunks[c].bytes
		}
	}
	return bytes
}

// countChunkUsers counts a model among the users of its chunks, or no more.
func (n *nexus) countChunkUsers(m, by int) {
	for _, c := range n.of[m] {
		if n.users[c] == 0 {
			n.bytes += n.chunks[c].bytes
		}
		n.users[c] += by
		if n.users[c] == 0 {
			n.bytes -= n.chunks[c].bytes
		}
	}
}

// missingBytes is the bytes of a model that no other has brought.
func (n *nexus) missingBytes(m int) (bytes int64) {
	for _, c := range n.of[m] {
		if n.users[c] == 0 {
			bytes += n.chunks[c].bytes
		}
	}
	return bytes
}

// makeRoom evicts models, those that ran last first, until a model and an area fit beside one that stays. If they cannot
// it evicts none.
func (n *nexus) makeRoom(m int, area int64, stays int) bool {
	var out []int
	for i := len(n.recent) - 1; n.bytes+n.missingBytes(m)+area > n.capacity; i-- {
		if i < 0 {
			for _, k := range out {
				n.resident[k] = true
				n.countChunkUsers(k, 1)
			}
			return false
		}
		if k := n.recent[i]; n.resident[k] && k != m && k != stays {
			n.resident[k] = false
			n.countChunkUsers(k, -1)
			out = append(out, k)
		}
	}
	return true
}

// nextReadyTurn returns the first position, from one on, whose model has a frame in time.
func (n *nexus) nextReadyTurn(x *world, from int) (turn int, ok bool) {
	for k := range len(n.turns) {
		turn := (from + k) % len(n.turns)
		if x.models[n.turns[turn]].inTime(x.now, 1) > 0 {
			return turn, true
		}
	}
	return 0, false
}

// upcomingTurn is the position from which the next model is sought.
func (n *nexus) upcomingTurn() int {
	if n.next >= 0 {
		return n.next
	}
	return n.turn
}

func (n *nexus) load(x *world) {
	from, stays := n.upcomingTurn(), -1
	if x.running != nil {
		from, stays = n.turn+1, x.running.id
	}
	turn, ok := n.nextReadyTurn(x, from)
	if !ok {
		return
	}
	m := n.turns[turn]
	if n.resident[m] {
		return
	}
	fits := n.bytes+n.missingBytes(m)+n.area <= n.capacity
	if !fits && (x.running != nil && n.wait[x.running.name] || !n.makeRoom(m, n.area, stays)) {
		return
	}
	bytes := n.missingBytes(m)
	n.countChunkUsers(m, 1)
	n.coming, n.next = m, turn
	x.startLoad(x.models[m], bytes)
}

func (n *nexus) loaded() {
	n.resident[n.coming] = true
	n.coming = -1
}

func (n *nexus) run(x *world) {
	turn, ok := n.nextReadyTurn(x, n.upcomingTurn())
	if !ok || !n.resident[n.turns[turn]] {
		return
	}
	m := x.models[n.turns[turn]]
	batch := min(n.batch[m.name], m.inTime(x.now, 1))
	for batch > 1 && (m.inTime(x.now, batch) < batch || m.weights+m.area[batch-1] > n.capacity) {
		batch--
	}
	if !n.makeRoom(m.id, m.area[batch-1], n.coming) {
		return
	}
	n.turn, n.next, n.area = turn, -1, m.area[batch-1]
	n.recent = append(slices.DeleteFunc(n.recent, func(i int) bool { return i == m.id }), m.id)
	x.startRun(m, batch)
}

func (n *nexus) count(_ *world, _ *feed, served, _ int) {
	if served > 0 {
		n.area = 0
		n.turn = (n.turn + 1) % len(n.turns)
	}
}
