package cuda

import "github.com/prefillonly/prefillonly/kernels"

// tablesBytes is how much of programs and taps is kept before all of it is thrown away: those of a network are a few kilobytes each, and come
// again with each pass.
const tablesBytes = 64 << 20

// tables are programs and taps on the device, by their bytes.
type tables struct {
	device networkDevice
	kept   map[string]kernels.Buffer
	bytes  int64
}

// place is where the bytes lie on the device, 0 after a failure and for none.
func (t *tables) place(content []byte) uint64 {
	if len(content) == 0 {
		return 0
	}
	b, ok := t.kept[string(content)]
	if !ok {
		var err error
		if b, err = t.device.Alloc(int64(len(content))); err != nil {
			t.device.Fail(err)
			return 0
		}
		t.device.Write(b, 0, content)
		if t.kept == nil {
			t.kept = map[string]kernels.Buffer{}
		}
		t.kept[string(content)] = b
		t.bytes += int64(len(content))
	}
	at, _ := t.device.Address(b)
	return at
}

// trimToLimit makes room; what place returned before does not hold after it.
func (t *tables) trimToLimit() {
	if t.bytes > tablesBytes {
		t.freeBuffers()
	}
}

func (t *tables) freeBuffers() {
	for _, b := range t.kept {
		b.Free()
	}
	t.kept, t.bytes = nil, 0
}
