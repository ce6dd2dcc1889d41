package frontend

import (
	"net/http"
	"sync"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// resetTimeout is how long the scheduler may take to answer a Reset.
const resetTimeout = 5 * time.Second

// resets are the requests that wait for a ResetDone.
type resets struct {
	mu      sync.Mutex
	serial  uint64                          // of the last; guarded by mu
	waiting map[uint64]chan *wire.ResetDone // each with room for its answer; guarded by mu
}

func (w *resets) begin() (serial uint64, done chan *wire.ResetDone) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting == nil {
		w.waiting = map[uint64]chan *wire.ResetDone{}
	}
	w.serial++
	done = make(chan *wire.ResetDone, 1)
	w.waiting[w.serial] = done
	return w.serial, done
}

// end forgets a request, and hands it its answer if there is one.
func (w *resets) end(serial uint64, answer *wire.ResetDone) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if done := w.waiting[serial]; done != nil && answer != nil {
		done <- answer
	}
	delete(w.waiting, serial)
}

// resetPrefixCache answers vLLM's /reset_prefix_cache. What running requests hold stays, and makes it a
// failure, as there.
func (f *Frontend) resetPrefixCache(x *exchange, r *http.Request) {
	serial, done := f.resets.begin()
	defer f.resets.end(serial, nil)
	if err := f.conn.Send(&wire.Reset{Serial: serial}); err != nil {
		f.refuse(x, refuse(engine.CodeUnavailable, "the scheduler cannot be reached: %v", err))
		return
	}
	timer := time.NewTimer(resetTimeout)
	defer timer.Stop()
	select {
	case answer := <-done:
		f.writeJSON(x, http.StatusOK, api.CacheReset{Success: answer.Held == 0, DroppedBlocks: answer.Dropped, HeldBlocks: answer.Held})
	case <-timer.C:
		f.refuse(x, refuse(engine.CodeUnavailable, "the scheduler has not answered within %v; it may be restarting", resetTimeout))
	case <-r.Context().Done():
		f.refuse(x, ended(r.Context()))
	}
}
