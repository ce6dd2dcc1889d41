package supervise

import (
	"os"
	"sync"
	"syscall"
)

// hangup is a child's SIGHUP, which would end a process that does not listen for it yet.
type hangup struct {
	mu      sync.Mutex
	process *os.Process // guarded by mu; nil while there is none
	listens bool        // guarded by mu; the process has given a sign of life
	wanted  bool        // guarded by mu; it is to get the signal as soon as it listens
}

// beginReload and end are the life of a process; one that begins reads what is new by itself.
func (h *hangup) beginReload(p *os.Process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.process, h.listens, h.wanted = p, false, false
}

func (h *hangup) forgetProcess() { h.beginReload(nil) }

// noteAlive takes in a sign of life.
func (h *hangup) noteAlive() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listens = true
	h.deliverSignal()
}

func (h *hangup) requestSignal() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wanted = true
	h.deliverSignal()
}

// deliverSignal sends the signal if it can be, under mu.
func (h *hangup) deliverSignal() {
	if h.process != nil && h.listens && h.wanted {
		h.wanted = false
		_ = h.process.Signal(syscall.SIGHUP) // it may have ended
	}
}

// Reload has the child read its configuration anew: it gets SIGHUP, for which it must listen before it gives its
// first sign of life. Several goroutines may call it.
func (c *Child) Reload() { c.hangup.requestSignal() }
