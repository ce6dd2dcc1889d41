package residency

import "slices"

// SetKeep changes whether a model is always kept. It returns *TooLarge, and changes nothing, for one to keep beside
// which some other could no longer be run.
func (m *Memory) SetKeep(id ModelID, keep bool) error {
	x := m.modelByID(id)
	if x == nil || x.keep == keep {
		return nil
	}
	m.setModelKept(x, keep)
	if !keep {
		return nil
	}
	if err := m.checkFits(x); err != nil {
		m.setModelKept(x, false)
		return err
	}
	return nil
}

func (m *Memory) setModelKept(x *model, keep bool) {
	x.keep = keep
	by := 1
	if !keep {
		by = -1
		m.keepers = slices.DeleteFunc(m.keepers, func(y *model) bool { return y == x })
	} else {
		m.keepers = append(m.keepers, x)
	}
	for _, c := range x.chunks {
		was := c.keeps > 0
		c.keeps += by
		switch is := c.keeps > 0; {
		case is && !was:
			m.kept += c.bytes
		case was && !is:
			m.kept -= c.bytes
		}
	}
}

// Free is the bytes that neither weights nor work areas of passes take.
func (m *Memory) Free() int64 { return m.freeBytes() }

// SetCapacity changes the room of the device.
func (m *Memory) SetCapacity(bytes int64) { m.capacity = bytes }

// SetRate changes the bytes/s at which all models are loaded.
func (m *Memory) SetRate(rate float64) {
	for _, x := range m.models {
		if x != nil && rate > 0 {
			x.rate = rate
		}
	}
}

// Resize changes the size of a chunk, which is known better once it has been loaded.
func (m *Memory) Resize(id Chunk, bytes int64) {
	c := m.chunkByID(id)
	if c == nil {
		return
	}
	more := bytes - c.bytes
	c.bytes = bytes
	if c.state != absent {
		m.weights += more
	}
	if c.keeps > 0 {
		m.kept += more
	}
	for _, x := range c.users {
		x.bytes += more
		if c.state == absent {
			x.absent += more
		}
		if c.state != resident {
			x.missing += more
		}
	}
}
