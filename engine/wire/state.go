package wire

// ExecutorState is how an executor and its device are, as far as that is known. It is for people and
// monitoring; no decision is made by it.
type ExecutorState struct {
	Name   string // the executor's
	Loaded uint64 // bytes of weights read so far
	ToLoad uint64 // bytes of weights in all; 0 where that is not known
	GPU    string // e.g. "NVIDIA H200"; empty without one, as are the fields below
	UUID   string
	// Readings are the GPU's figures under the names that NVIDIA's DCGM exporter gives them.
	Readings []Reading
}

// Reading is one figure.
type Reading struct {
	Name  string
	Value float64
}

func (m *ExecutorState) encode(w *writer) {
	w.string("name", m.Name)
	w.uint("loaded", m.Loaded)
	w.uint("to_load", m.ToLoad)
	w.string("gpu", m.GPU)
	w.string("uuid", m.UUID)
	writeItems(w, "readings", m.Readings)
}

func (m *ExecutorState) decode(r *reader, key []byte) bool {
	switch string(key) {
	case "name":
		m.Name = r.string()
	case "loaded":
		m.Loaded = r.uint()
	case "to_load":
		m.ToLoad = r.uint()
	case "gpu":
		m.GPU = r.string()
	case "uuid":
		m.UUID = r.string()
	case "readings":
		m.Readings = readItems[Reading](r)
	default:
		return false
	}
	return true
}

func (m *Reading) encode(w *writer) {
	w.string("name", m.Name)
	w.float64("value", m.Value)
}

func (m *Reading) decode(r *reader, key []byte) bool {
	switch string(key) {
	case "name":
		m.Name = r.string()
	case "value":
		m.Value = r.float64()
	default:
		return false
	}
	return true
}
