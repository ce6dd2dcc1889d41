package client

import (
	"context"
	"sync"
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// Delivery is a Result of a job, and when it came.
type Delivery struct {
	Index     int // the job's, as NewJob was told
	Result    *wire.Result
	Units     float64   // of the job's work
	Submitted time.Time // when the job was
	// Outputs are the bytes of an *engine.TensorOutput, of its tensors in their order.
	Outputs [][]byte
	At      time.Time
}

// Results is the stream of the Results of some jobs, in the order in which they come. It holds them until
// they are taken. One goroutine takes them.
type Results struct {
	wake    chan struct{} // holds one token while something has arrived
	mu      sync.Mutex
	arrived []Delivery // guarded by mu
}

// NewResults makes an empty stream, for NewJob.
func NewResults() *Results { return &Results{wake: make(chan struct{}, 1)} }

func (r *Results) putDelivery(d Delivery) {
	r.mu.Lock()
	r.arrived = append(r.arrived, d)
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Next waits for Results and takes all that have come; its only error is why ctx has ended. The memory of
// taken, which is what the last call returned or nil, is used for what comes next.
func (r *Results) Next(ctx context.Context, taken []Delivery) ([]Delivery, error) {
	select {
	case <-r.wake:
		return r.takeDeliveries(taken), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// takeDeliveries empties the stream, handing over into's memory for what comes next.
func (r *Results) takeDeliveries(into []Delivery) []Delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.arrived
	clear(into) // a Result may hold megabytes
	r.arrived = into[:0]
	return taken
}
