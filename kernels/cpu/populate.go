//go:build cgo && linux && amd64

package cpu

import (
	"syscall"

	"github.com/prefillonly/prefillonly/kernels"
)

const (
	populateAhead = 64 << 20 // bytes behind what is in use that are backed before they are
	populateStep  = hugePage // backed at a time: Free waits for no more
	advPopulate   = 23       // MADV_POPULATE_WRITE, of Linux 5.14
)

// populator backs memory ahead of its use, in a goroutine of its own, which close ends.
type populator struct {
	asked chan *buffer
	done  chan struct{}
}

func newPopulator() *populator {
	p := &populator{asked: make(chan *buffer, 1), done: make(chan struct{})}
	go func() { // ended by close
		defer close(p.done)
		for b := range p.asked {
			for b.populate() {
			}
		}
	}()
	return p
}

func (p *populator) close() {
	close(p.asked)
	<-p.done
}

// Populate implements kernels.Populator. A buffer that is asked for while another is being backed goes without, until it is
// asked for again.
func (b *Backend) Populate(buf kernels.Buffer, to int64) {
	memory := buf.(*buffer)
	wanted := min(to+populateAhead, memory.Bytes())
	if wanted < memory.wanted.Load()+populateStep {
		return
	}
	memory.wanted.Store(wanted)
	select {
	case b.populator.asked <- memory:
	default:
		memory.wanted.Store(0)
	}
}

// populate backs a step of what is wanted; false where nothing is left to back.
func (b *buffer) populate() bool {
	b.populating.Lock()
	defer b.populating.Unlock()
	to := min(b.wanted.Load(), b.Bytes())
	if b.populated >= to {
		return false
	}
	end := min(b.populated+populateStep, b.Bytes())
	if syscall.Madvise(b.data[b.populated:end], advPopulate) != nil {
		end = b.Bytes() // the system cannot: the first write will do it
	}
	b.populated = end
	return true
}
