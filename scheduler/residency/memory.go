package residency

import (
	"cmp"
	"slices"
)

// Model and Chunk are handles that the caller chooses. They index slices, so they are small.
type (
	ModelID int
	Chunk   int
)

// SizedChunk is a chunk and its size.
type SizedChunk struct {
	Chunk Chunk
	Bytes int64
}

// Spec is what is known of a model.
type Spec struct {
	Chunks []SizedChunk // in the order in which they are loaded; a chunk counts once
	Area   int64        // bytes beside the weights that its smallest pass works in
	Rate   float64      // bytes/s at which it is loaded
	Keep   bool         // it is loaded when there is room, and never evicted
}

// state is where a chunk is.
type state int

const (
	absent state = iota
	loading
	resident
)

// chunk is what Memory knows of one.
type chunk struct {
	id    Chunk
	bytes int64
	state state
	users []*model
	whole int    // users that are whole
	keeps int    // users that are always kept
	begun int    // passes of its users
	used  uint64 // Memory.clock when a user last began a pass

	// Set anew for each decision, where round is Memory.round.
	round uint64
	key   float64 // of the best demand that uses it; see Memory.weighDemands
	fixed bool    // a demand that uses it stays
	own   uint64  // Memory.round of the last decision for a model that uses it
}

// model is what Memory knows of one.
type model struct {
	id      ModelID
	chunks  []*chunk
	area    int64
	rate    float64
	keep    bool
	bytes   int64 // of its chunks
	absent  int64 // bytes neither resident nor on their way
	missing int64 // bytes not resident: absent, and those on their way
	gone    int   // chunks of absent
	lacks   int   // chunks of missing
	passes  int   // begun and not ended

	// Set anew for each decision, where round is Memory.round.
	round uint64
	key   float64 // of its demand, with what it lacks still to load
	kept  bool    // its demand stays
}

func (m *model) isReady() bool { return m.lacks == 0 }

// isWhole says whether all of it is resident or on its way.
func (m *model) isWhole() bool { return m.gone == 0 }

// seconds is how long it takes to load so many bytes of it.
func (m *model) seconds(bytes int64) float64 {
	if bytes == 0 {
		return 0
	}
	return float64(bytes) / m.rate
}

// Memory is the weight memory of one device: what is there, what is on its way, and who uses it. It is not safe
// for concurrent use.
type Memory struct {
	capacity int64
	ownTime  bool // loads take the device's own time
	chunks   []*chunk
	models   []*model
	resident []*chunk // of greatest id first
	weights  int64    // bytes of chunks that are resident or on their way
	areas    int64    // bytes of the work areas of passes
	kept     int64    // bytes of chunks that are always kept
	keepers  []*model
	target   *model // being loaded, to its end
	flights  []flight
	clock    uint64 // counts passes, for what was used last
	round    uint64 // counts decisions
	victims  []victim
	kinds    []victimKind
	kindOf   map[kindKey]int
	starts   []int    // where each kind's victims begin
	sorted   []victim // as victims, for their next order
	unused   int64    // bytes of victims that no demand uses
	waiting  []*model // whole, with demands
}

// flight is a chunk on its way.
type flight struct {
	chunk *chunk
	model *model // for which it is loaded
}

// NewMemory makes the memory of a device with room for so many bytes of weights and work areas. If loads take the device's own
// time, as on a CPU, they have their turn in the same order as passes.
func NewMemory(capacity int64, ownTime bool) *Memory {
	return &Memory{capacity: capacity, ownTime: ownTime, kindOf: map[kindKey]int{}}
}

// Unload evicts what of a model no other whole one uses, if it has no pass and is not kept, and returns
// what is to be dropped.
func (m *Memory) Unload(id ModelID) (drop []Chunk) {
	x := m.modelByID(id)
	if x == nil || x.passes > 0 || x.keep {
		return nil
	}
	if m.target == x {
		m.target = nil
	}
	own := 0
	if x.isWhole() {
		own = 1
	}
	for _, c := range x.chunks {
		if c.state == resident && c.whole <= own && c.keeps == 0 && c.begun == 0 {
			drop = append(drop, c.id)
		}
	}
	for _, c := range drop {
		m.setChunkState(m.chunks[c], absent)
	}
	return drop
}

// Reset forgets what is on the device and the passes there: another process has it now.
func (m *Memory) Reset() {
	for i, c := range m.chunks {
		if c == nil {
			continue
		}
		m.setChunkState(c, absent)
		c.begun = 0
		if len(c.users) == 0 {
			m.chunks[i] = nil
		}
	}
	for _, x := range m.models {
		if x != nil {
			x.passes = 0
		}
	}
	m.areas, m.target, m.flights = 0, nil, nil
}

// Loaded says that a chunk is on the device, by the last command or from before. If it is not wanted any more, as its
// models have been removed meanwhile, it is to be dropped.
func (m *Memory) Loaded(id Chunk) (wanted bool) {
	c := m.chunkByID(id)
	if c == nil {
		return false
	}
	m.endFlight(c)
	if len(c.users) == 0 {
		m.setChunkState(c, absent)
		m.chunks[id] = nil
		return false
	}
	m.setChunkState(c, resident)
	return true
}

// Failed says that a chunk could not be loaded. Its model is tried again as long as its demand has work.
func (m *Memory) Failed(id Chunk) {
	c := m.chunkByID(id)
	if c == nil || c.state != loading {
		return
	}
	m.endFlight(c)
	m.setChunkState(c, absent)
	if m.target != nil && slices.Contains(m.target.chunks, c) {
		m.target = nil
	}
	if len(c.users) == 0 {
		m.chunks[id] = nil
	}
}

// endFlight takes a chunk off those on their way.
func (m *Memory) endFlight(c *chunk) {
	m.flights = slices.DeleteFunc(m.flights, func(f flight) bool { return f.chunk == c })
}

// Missing is the bytes of a model that are not resident.
func (m *Memory) Missing(id ModelID) int64 { return m.models[id].missing }

// Load is the seconds that it takes to load what of a model is not resident.
func (m *Memory) Load(id ModelID) float64 {
	x := m.models[id]
	return x.seconds(x.missing)
}

// Ready says whether a model is wholly resident.
func (m *Memory) Ready(id ModelID) bool { return m.models[id].isReady() }

// Target is the model that is being loaded.
func (m *Memory) Target() (id ModelID, ok bool) {
	if m.target == nil {
		return 0, false
	}
	return m.target.id, true
}

// Used is the bytes of all weights that are resident or on their way, and of the work areas of passes.
func (m *Memory) Used() int64 { return m.weights + m.areas }

func (m *Memory) freeBytes() int64 { return m.capacity - m.Used() }

func (m *Memory) modelByID(id ModelID) *model {
	if id < 0 || int(id) >= len(m.models) {
		return nil
	}
	return m.models[id]
}

func (m *Memory) chunkByID(id Chunk) *chunk {
	if id < 0 || int(id) >= len(m.chunks) {
		return nil
	}
	return m.chunks[id]
}

// setChunkState moves a chunk to another state.
func (m *Memory) setChunkState(c *chunk, to state) {
	if c.state == to {
		return
	}
	from := c.state
	c.state = to
	switch {
	case from == absent:
		m.weights += c.bytes
	case to == absent:
		m.weights -= c.bytes
	}
	switch i, _ := slices.BinarySearchFunc(m.resident, c.id, func(o *chunk, id Chunk) int { return cmp.Compare(id, o.id) }); {
	case to == resident:
		m.resident = slices.Insert(m.resident, i, c)
	case from == resident:
		m.resident = slices.Delete(m.resident, i, i+1)
	}
	for _, x := range c.users {
		x.moved(c.bytes, from, to)
	}
}

// moved follows a chunk of a model to another state.
func (m *model) moved(bytes int64, from, to state) {
	was := m.isWhole()
	switch {
	case from == absent:
		m.gone--
		m.absent -= bytes
	case to == absent:
		m.gone++
		m.absent += bytes
	}
	switch {
	case from == resident:
		m.lacks++
		m.missing += bytes
	case to == resident:
		m.lacks--
		m.missing -= bytes
	}
	switch is := m.isWhole(); {
	case is && !was:
		m.adjustWholeCounts(1)
	case was && !is:
		m.adjustWholeCounts(-1)
	}
}

// adjustWholeCounts counts a model in its chunks as whole, or no more.
func (m *model) adjustWholeCounts(by int) {
	for _, c := range m.chunks {
		c.whole += by
	}
}
