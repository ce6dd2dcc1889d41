// Package tensorparallel spreads a model over several ranks, each a kernels.Rank on its own OS
// thread, and is itself a kernels.Backend: every rank holds a part of each matrix and of the keys and
// values, and the ranks' partial sums come together twice a layer.
//
// Matrices that read the residual stream are cut by their outputs, attention by whole heads, and
// matrices that write it by their inputs (Shoeybi et al., Megatron-LM, 2019, section 3). The residual
// stream, norms and tables are on every rank; of logits each computes a part of the vocabulary.
// Partial sums are gathered, not reduced on the way: every rank adds them up in float32, in the order
// of the ranks. So the ranks agree to the bit, and a row's bits depend on nothing but its inputs
// and the number of ranks, whatever a library does to move the data.
package tensorparallel

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prefillonly/prefillonly/internal/osthread"
	"github.com/prefillonly/prefillonly/kernels"
)

// Collective brings the ranks' partial sums together.
type Collective interface {
	// Gather takes one rank's partial and returns all of them in the order of the ranks, where the rank
	// can read them until it has called Gather twice more. Every rank calls it, on its own thread, in
	// the same order with the same shapes.
	Gather(rank int, partial kernels.Mat) ([]kernels.Mat, error)
	// Check returns a failure that happened beside the calls.
	Check() error
	// Abort ends waiting and later Gathers with an error, until Reset.
	Abort(err error)
	// Reset begins anew after Abort; no rank is inside Gather then.
	Reset() error
	Close()
}

// Options of New. The zero value has the defaults.
type Options struct {
	Timeout  time.Duration // without progress of any rank, after which a pass fails; 0 is 5 minutes
	Partials kernels.DType // type of partial sums on their way between ranks; one that all ranks have
}

// Backend is a kernels.Backend of several ranks. Calls go to the ranks' threads and return; only
// Sync, Read and what makes something wait for them. It is no kernels.Networks, whatever the ranks
// are (see kernels.NetworksOf). In one thing it promises less than others: a
// matrix that an operation writes over part of a wider one leaves the rest of those rows undefined.
type Backend struct {
	name       string
	workers    []*worker
	running    sync.WaitGroup
	collective Collective
	partials   kernels.DType
	err        error  // first failure outside the ranks since the last Sync
	marked     uint64 // copies that Mark has named

	timeout  time.Duration
	progress atomic.Uint64 // calls that ranks have completed
	seen     uint64        // progress at moved
	moved    time.Time     // when progress was last seen to change
	broken   error         // ranks no longer answer

	mu    sync.Mutex
	cause error // guarded by mu: why the collective was aborted since the last Sync
}

var _ kernels.Backend = (*Backend)(nil)

// worker is one rank with its thread.
type worker struct {
	kernels.Rank
	calls    chan func()
	err      error             // owned by the thread: first failure since the last Sync
	partials [2]kernels.Buffer // owned by the thread
	turn     int               // owned by the thread: which of partials is next
	marks    marks             // owned by the thread
}

// queue is how many calls a rank may be behind.
const queue = 1024

// New opens every rank on its own thread and joins them.
func New(open []func() (kernels.Rank, error), join func([]kernels.Rank) (Collective, error), o Options) (*Backend, error) {
	b := &Backend{timeout: o.Timeout, partials: o.Partials, collective: NewShared(len(open))}
	if b.timeout == 0 {
		b.timeout = 5 * time.Minute
	}
	for range open {
		w := &worker{calls: make(chan func(), queue)}
		b.workers = append(b.workers, w)
		b.running.Go(func() { // ends with Close
			_ = osthread.Do(func() error {
				for call := range w.calls {
					call()
					b.progress.Add(1)
				}
				return nil
			})
		})
	}
	err := b.callEachRank(func(i int, w *worker) error {
		r, err := open[i]()
		if err == nil {
			w.Rank = r
			if types := r.PartialTypes(); !slices.Contains(types, o.Partials) {
				err = fmt.Errorf("invalid partial sums %v: want %s", types, o.Partials)
			}
		}
		return err
	})
	if err == nil {
		ranks := make([]kernels.Rank, len(open))
		for i, w := range b.workers {
			ranks[i] = w.Rank
		}
		var joined Collective
		if joined, err = join(ranks); err == nil {
			b.collective = joined
		}
	}
	if err != nil {
		b.Close()
		return nil, err
	}
	b.name = b.rankNames()
	return b, nil
}

// rankNames is a name that equal ranks have and their number, or those of different ones.
func (b *Backend) rankNames() string {
	all := make([]string, len(b.workers))
	for i, w := range b.workers {
		all[i] = w.Name()
	}
	if different := slices.Compact(slices.Clone(all)); len(different) == 1 {
		return fmt.Sprintf("%s x%d", all[0], len(all))
	}
	return strings.Join(all, " + ")
}

// Name names the ranks.
func (b *Backend) Name() string { return b.name }

// ActType is the ranks'.
func (b *Backend) ActType() kernels.DType { return b.workers[0].ActType() }

// Ranks is their number.
func (b *Backend) Ranks() int { return len(b.workers) }

// Close ends the threads and closes the ranks. Ranks that no longer answer are left behind.
func (b *Backend) Close() {
	b.collective.Close()
	_ = b.callEachRank(func(_ int, w *worker) error {
		if w.Rank == nil {
			return nil
		}
		for _, p := range w.partials {
			if p != nil {
				p.Free()
			}
		}
		w.Rank.Close()
		return nil
	})
	for _, w := range b.workers {
		close(w.calls)
	}
	if b.broken == nil {
		b.running.Wait()
	}
}

// enqueueEachRank enqueues a call for every rank. Its failure fails the pass: the rank does nothing more until
// Sync, and the others do not wait for it.
func (b *Backend) enqueueEachRank(call func(i int, w *worker) error) {
	for i, w := range b.workers {
		b.enqueueCall(w, func() {
			if w.err != nil {
				return
			}
			if w.err = guardCall(i, w, call); w.err != nil {
				b.abortPass(w.err)
			}
		})
	}
}

// guardCall turns a panic into an error and says whose it is.
func guardCall(i int, w *worker, call func(i int, w *worker) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
		if err != nil {
			name := ""
			if w.Rank != nil {
				name = " (" + w.Name() + ")"
			}
			err = fmt.Errorf("rank %d%s: %w", i, name, err)
		}
	}()
	return call(i, w)
}

// abortPass lets no rank wait for one that has failed.
func (b *Backend) abortPass(err error) {
	b.mu.Lock()
	if b.cause == nil {
		b.cause = err
	}
	b.mu.Unlock()
	b.collective.Abort(err)
}

// patience is how often ranks that keep the caller waiting are looked at, and how long one rank may
// still work after another has failed.
const patience = time.Second

// enqueueCall waits while the rank is too far behind.
func (b *Backend) enqueueCall(w *worker, call func()) {
	select {
	case w.calls <- call:
		return
	default:
	}
	b.moved = time.Now()
	tick := time.NewTicker(patience)
	defer tick.Stop()
	for b.broken == nil {
		select {
		case w.calls <- call:
			return
		case <-tick.C:
			b.watchProgress()
		}
	}
}

// callEachRank calls f on every rank after all that was enqueued before, and returns the first rank's error.
func (b *Backend) callEachRank(f func(i int, w *worker) error) error {
	all := make([]int, len(b.workers))
	for i := range all {
		all[i] = i
	}
	return b.waitFor(all, f)
}

func (b *Backend) waitFor(ranks []int, f func(i int, w *worker) error) error {
	type end struct {
		rank int
		err  error
	}
	ends := make(chan end, len(ranks)) // so that a late rank does not wait for a caller that is gone
	for _, i := range ranks {
		w := b.workers[i]
		b.enqueueCall(w, func() { ends <- end{i, guardCall(i, w, f)} })
	}
	errs := make([]error, len(b.workers))
	b.moved = time.Now()
	tick := time.NewTicker(patience)
	defer tick.Stop()
	for left := len(ranks); left > 0 && b.broken == nil; {
		select {
		case e := <-ends:
			errs[e.rank] = e.err
			left--
		case <-tick.C:
			for _, err := range errs {
				if err != nil {
					b.abortPass(err)
					break
				}
			}
			b.watchProgress()
		}
	}
	if b.broken != nil {
		return b.broken
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// watchProgress fails the pass when the collective has failed or no rank gets on.
func (b *Backend) watchProgress() {
	if done := b.progress.Load(); done != b.seen {
		b.seen, b.moved = done, time.Now()
	}
	if err := b.collective.Check(); err != nil {
		b.abortPass(err)
	}
	stuck := time.Since(b.moved)
	if stuck < b.timeout {
		return
	}
	err := fmt.Errorf("%s: no rank has made progress for %v", b.name, stuck.Round(time.Second))
	b.abortPass(err)
	if stuck > b.timeout+5*patience {
		b.broken = &lostError{err}
	}
}

// lostError says that the ranks are of no more use to this process.
type lostError struct{ error }

func (e *lostError) Unwrap() error { return e.error }

// DeviceLost says that whoever runs the ranks must end.
func (*lostError) DeviceLost() bool { return true }

// Sync waits for all ranks. After a failure the ranks are joined anew; a pass that was under way is
// lost.
func (b *Backend) Sync() error {
	err := b.callEachRank(func(_ int, w *worker) error {
		failed := w.err
		w.err = nil
		return errors.Join(failed, w.Sync())
	})
	b.mu.Lock()
	cause := b.cause
	b.cause = nil
	b.mu.Unlock()
	if cause != nil && b.broken == nil {
		if lost := b.collective.Reset(); lost != nil {
			b.broken = &lostError{errors.Join(cause, lost)}
		}
	}
	own := b.err
	b.err = nil
	for _, first := range []error{b.broken, cause, own} {
		if first != nil {
			return first
		}
	}
	return err
}

func (b *Backend) recordFailure(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf(b.name+": "+format, args...)
	}
}
