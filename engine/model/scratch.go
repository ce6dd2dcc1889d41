package model

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/kernels"
)

// scratch is memory for the keys and values of a layer that no page is given to. Open passes have it from its beginning
// on, each all that it needs, as one of them is inside a layer at a time; the lowest one has its end, so that it may stand
// still inside one.
type scratch struct {
	buf    kernels.Buffer
	bytes  int64
	open   []int64 // what passes have from the beginning on
	lowest int64   // what the lowest pass has of the end
	lent   bool    // there is a lowest pass
}

// reserveBytes lends so many bytes to a pass that begins, or says why not.
func (s *scratch) reserveBytes(bytes int64, lowest bool) *engine.Error {
	beside := s.lowest
	if lowest {
		beside = 0
		if len(s.open) > 0 {
			beside = slices.Max(s.open)
		}
	}
	switch {
	case lowest && s.lent:
		return engine.Errorf(engine.CodeOverloaded, "another pass of lowest jobs is open")
	case bytes > s.bytes-beside:
		return engine.Errorf(engine.CodeOverloaded, "%d bytes of keys and values do not fit beside those of other passes, which leave %d", bytes, s.bytes-beside)
	case lowest:
		s.lent, s.lowest = true, bytes
	default:
		s.open = append(s.open, bytes)
	}
	return nil
}

// releaseBytes takes back what a pass had.
func (s *scratch) releaseBytes(bytes int64, lowest bool) {
	if lowest {
		s.lent, s.lowest = false, 0
		return
	}
	at := slices.Index(s.open, bytes)
	s.open = slices.Delete(s.open, at, at+1)
}

// kvBlock is where the i-th block of a pass is.
func (s *scratch) kvBlock(i int, block int64, lowest bool) kernels.KVBlock {
	if lowest {
		i = int(s.bytes/block) - 1 - i
	}
	return kernels.KVBlock{Buf: s.buf, Off: int64(i) * block}
}
