package wire

import (
	"math"

	"github.com/prefillonly/prefillonly/engine"
)

func (m *Run) encode(w *writer) {
	w.uint("pass", uint64(m.Pass))
	w.copies("saves", m.Saves)
	w.copies("loads", m.Loads)
	writeItems(w, "items", m.Items)
}

func (m *Run) decode(r *reader, key []byte) bool {
	switch string(key) {
	case "pass":
		m.Pass = PassID(r.uint())
	case "saves":
		m.Saves = r.copies()
	case "loads":
		m.Loads = r.copies()
	case "items":
		m.Items = readItems[RunItem](r)
	default:
		return false
	}
	return true
}

func (m *RunItem) encode(w *writer) {
	w.uint("job", uint64(m.Job))
	frame(w, "tokens", m.Tokens)
	w.int("cached", int64(m.Cached))
	frame(w, "blocks", m.Blocks)
	w.uint("part_block", uint64(m.Part.Block))
	w.int("part_tokens", int64(m.Part.Tokens))
	w.int("draw", int64(m.Draw))
	w.object("ask", (*askBody)(&m.Ask))
}

func (m *RunItem) decode(r *reader, key []byte) bool {
	switch string(key) {
	case "job":
		m.Job = engine.JobID(r.uint())
	case "tokens":
		m.Tokens = readFrame[engine.TokenID](r)
	case "cached":
		m.Cached = r.count()
	case "blocks":
		m.Blocks = readFrame[BlockID](r)
	case "part_block":
		m.Part.Block = BlockID(r.small(math.MaxUint32))
	case "part_tokens":
		m.Part.Tokens = r.count()
	case "draw":
		m.Draw = r.count()
	case "ask":
		r.object((*askBody)(&m.Ask))
	default:
		return false
	}
	return true
}
