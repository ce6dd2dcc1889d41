package presets

import (
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/scheduler/sim"
)

// nexus is the order of the GEMEL paper's variant of Nexus. Models take turns, those that share weights beside each other;
// one without a frame in time is passed over. The next model is loaded while one runs, and what ran most recently makes room: whole, as
// published, or by as many tensors as are needed and the next model has not.
type nexus struct {
	plan     plan
	feeds    []*feed
	capacity int64
	chunks   []piece
	tensors  bool    // make room, not models
	of       [][]int // chunks of each model
	there    []bool  // chunks, or coming
	users    []int   // of each chunk: models that are there or coming
	bytes    int64   // of chunks that are there
	resident []bool  // models
	coming   int     // the model being loaded; none is -1
	turns    []int   // models in the order of their turns
	turn     int     // position of the model that runs, or of the one to run next
	next     int     // position of the model that is loaded for its turn; none is -1
	recent   []int   // models in the order in which they ran last, the newest last
	running  int     // the model that runs; none is -1
	area     int64   // of the pass that runs
}

func (a *feedArrivals) newNexus(p plan) *nexus {
	w := a.Workload
	n := &nexus{
		plan: p, capacity: w.deviceCapacity(a.Memory), chunks: a.chunks, tensors: !a.ByModel,
		of: make([][]int, len(w.models)), resident: make([]bool, len(w.models)), coming: -1, next: -1, running: -1,
		there: make([]bool, len(a.chunks)), users: make([]int, len(a.chunks)),
	}
	archs := architecturesByName()
	for i, e := range w.models {
		n.feeds = append(n.feeds, &feed{architecture: archs[e.Architecture], id: i})
	}
	for c, piece := range n.chunks {
		for _, i := range piece.models {
			n.of[i] = append(n.of[i], c)
		}
	}
	n.turns = arrangeModels(n.sharedBytes())
	n.recent = slices.Clone(n.turns)
	return n
}

// Decide implements sim.Order. The channel is asked first: else a demand that always has frames is never displaced.
func (n *nexus) Decide(d *sim.Desk) {
	for _, j := range d.Arrived {
		n.feeds[j.Model].frames = append(n.feeds[j.Model].frames, j)
	}
	if n.running >= 0 && !d.Running {
		n.running, n.area = -1, 0
		n.turn = (n.turn + 1) % len(n.turns)
	}
	if n.coming >= 0 && !d.Loading {
		n.resident[n.coming], n.coming = true, -1
	}
	for _, m := range n.feeds {
		m.expireFrames(d, 1)
	}
	n.loadModel(d)
	n.runTurn(d)
	n.loadModel(d)
}

// sharedBytes is what each model has in common with each other.
func (n *nexus) sharedBytes() [][]int64 {
	shared := make([][]int64, len(n.of))
	for i := range shared {
		shared[i] = make([]int64, len(n.of))
	}
	for _, c := range n.chunks {
		for _, i := range c.models {
			for _, k := range c.models {
				shared[i][k] += c.bytes
			}
		}
	}
	return shared
}

// countChunkUsers counts a model among the users of its chunks, or no more.
func (n *nexus) countChunkUsers(m, by int) {
	for _, c := range n.of[m] {
		n.users[c] += by
	}
}

// setThere says of chunks that they are there, or no more.
func (n *nexus) setThere(chunks []uint32, there bool) {
	for _, c := range chunks {
		n.there[c] = there
		if there {
			n.bytes += n.chunks[c].bytes
		} else {
			n.bytes -= n.chunks[c].bytes
		}
	}
}

// missing are the chunks of a model that are not there.
func (n *nexus) missing(m int) (chunks []uint32, bytes int64) {
	for _, c := range n.of[m] {
		if !n.there[c] {
			chunks = append(chunks, uint32(c))
			bytes += n.chunks[c].bytes
		}
	}
	return chunks, bytes
}

// lacks is how many bytes must go for a model and an area.
func (n *nexus) lacks(m int, area int64) int64 {
	_, bytes := n.missing(m)
	return n.bytes + bytes + area - n.capacity
}

// makeRoom evicts models, those that ran last first, until a model and an area fit beside one that stays. If they cannot
// it evicts none.
func (n *nexus) makeRoom(d *sim.Desk, m int, area int64, stays int) bool {
	var models []int
	var chunks []uint32
	lacks := n.lacks(m, area)
	for i := len(n.recent) - 1; lacks > 0; i-- {
		if i < 0 {
			for _, k := range models {
				n.resident[k] = true
				n.countChunkUsers(k, 1)
			}
			n.setThere(chunks, true)
			return false
		}
		k := n.recent[i]
		if k == m || k == stays {
			continue
		}
		if n.resident[k] {
			n.resident[k] = false
			n.countChunkUsers(k, -1)
			models = append(models, k)
		}
		out := n.unused(k, m, lacks)
		n.setThere(out, false)
		chunks = append(chunks, out...)
		lacks = n.lacks(m, area)
	}
	d.Drop(chunks)
	return true
}

// unused are the chunks of a model that is evicted and of which no other has use; where tensors make room, as many as are lacking and
// that the model for which it is evicted has not, the last ones first.
func (n *nexus) unused(m, by int, lacks int64) (chunks []uint32) {
	for _, c := range slices.Backward(n.of[m]) {
		if n.users[c] > 0 || !n.there[c] || n.tensors && (lacks <= 0 || slices.Contains(n.chunks[c].models, by)) {
			continue
		}
		chunks = append(chunks, uint32(c))
		lacks -= n.chunks[c].bytes
	}
	return chunks
}

// nextReadyTurn returns the first position, from one on, whose model has a frame in time.
func (n *nexus) nextReadyTurn(d *sim.Desk, from int) (turn int, ok bool) {
	for k := range len(n.turns) {
		turn := (from + k) % len(n.turns)
		if n.feeds[n.turns[turn]].inTime(d.Now, 1) > 0 {
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

// feed is one model and the frames that wait for it.
type feed struct {
	*architecture
	id     int
	frames []*sim.Job // that wait, oldest first
}

// inTime is how many frames wait that a pass of so many would serve in time.
func (m *feed) inTime(now time.Duration, batch int) int {
	n := 0
	for i := len(m.frames) - 1; i >= 0 && m.frames[i].Deadline >= now+m.run[batch-1]; i-- {
		n++
	}
	return n
}

// expireFrames drops the frames that a pass of so many could not serve in time any more.
func (m *feed) expireFrames(d *sim.Desk, batch int) {
	died := len(m.frames) - m.inTime(d.Now, batch)
	d.Expire(m.frames[:died])
	m.frames = m.frames[died:]
}

// takeFrames takes the oldest frames.
func (m *feed) takeFrames(n int) []*sim.Job {
	taken := m.frames[:n]
	m.frames = m.frames[n:]
	return taken
}

func (n *nexus) loadModel(d *sim.Desk) {
	if d.Loading {
		return
	}
	from := n.upcomingTurn()
	if d.Running {
		from = n.turn + 1
	}
	turn, ok := n.nextReadyTurn(d, from)
	if !ok {
		return
	}
	m := n.turns[turn]
	if n.resident[m] {
		return
	}
	if n.lacks(m, n.area) > 0 && (d.Running && n.plan[n.feeds[n.running].name].wait || !n.makeRoom(d, m, n.area, n.running)) {
		return
	}
	missing, _ := n.missing(m)
	n.countChunkUsers(m, 1)
	n.setThere(missing, true)
	n.coming, n.next = m, turn
	d.Load(m, missing)
}

func (n *nexus) runTurn(d *sim.Desk) {
	if d.Running {
		return
	}
	turn, ok := n.nextReadyTurn(d, n.upcomingTurn())
	if !ok || !n.resident[n.turns[turn]] {
		return
	}
	m := n.feeds[n.turns[turn]]
	batch := min(n.plan[m.name].batch, m.inTime(d.Now, 1))
	for batch > 1 && (m.inTime(d.Now, batch) < batch || m.weights+m.area[batch-1] > n.capacity) {
		batch--
	}
	if !n.makeRoom(d, m.id, m.area[batch-1], n.coming) {
		return
	}
	n.turn, n.next, n.area, n.running = turn, -1, m.area[batch-1], m.id
	n.recent = append(slices.DeleteFunc(n.recent, func(i int) bool { return i == m.id }), m.id)
	m.expireFrames(d, batch)
	d.Run(m.takeFrames(batch)...)
}
