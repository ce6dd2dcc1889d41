package cuda

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda/nccl"
)

// Collective gathers the partial sums of several GPUs through NCCL: it is a tensorparallel.Collective.
// NCCL only copies, so how it does so cannot change a sum.
type Collective struct {
	library  *nccl.Library
	devices  []int
	ranks    []*Backend
	gathered []kernels.Buffer // of each rank, owned by its thread

	mu       sync.Mutex
	comms    []*nccl.Comm   // guarded by mu; nil once aborted
	err      error          // guarded by mu: of Abort
	aborting sync.WaitGroup // aborts that NCCL has not ended
}

// NewCollective joins ranks, whose GPUs have these numbers. library is the path of libnccl, or empty
// to find it by its usual names.
func NewCollective(ranks []*Backend, devices []int, library string) (*Collective, error) {
	l, err := nccl.Open(library)
	if err != nil {
		return nil, err
	}
	comms, err := l.Join(devices)
	if err != nil {
		return nil, err
	}
	return &Collective{library: l, devices: devices, ranks: ranks, comms: comms, gathered: make([]kernels.Buffer, len(ranks))}, nil
}

// Gather enqueues the copies; what is enqueued after it sees all partials.
func (c *Collective) Gather(rank int, partial kernels.Mat) ([]kernels.Mat, error) {
	if partial.Stride != partial.Cols {
		return nil, fmt.Errorf("partial sums of %d columns have rows %d elements apart", partial.Cols, partial.Stride)
	}
	b, bytes := c.ranks[rank], int64(partial.Rows)*int64(partial.Cols)*partial.Type.Size()
	held := &c.gathered[rank]
	if need := bytes * int64(len(c.ranks)); *held == nil || (*held).Bytes() < need {
		if *held != nil {
			(*held).Free()
		}
		var err error
		if *held, err = b.Alloc(need); err != nil {
			return nil, fmt.Errorf("gathered partial sums: %w", err)
		}
	}
	comm, err := c.comm(rank)
	if err != nil {
		return nil, err
	}
	if err := comm.AllGather(uint64((*held).(*buffer).at), uint64(at(partial)), bytes); err != nil {
		return nil, err
	}
	all := make([]kernels.Mat, len(c.ranks))
	for i := range all {
		all[i] = kernels.Mat{Buf: *held, Off: int64(i) * bytes, Rows: partial.Rows, Cols: partial.Cols, Stride: partial.Cols, Type: partial.Type}
	}
	return all, nil
}

func (c *Collective) comm(rank int) (*nccl.Comm, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.err
	}
	return c.comms[rank], nil
}

// Check asks NCCL for failures beside the calls.
func (c *Collective) Check() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, comm := range c.comms {
		if err := comm.Err(); err != nil {
			return fmt.Errorf("cuda:%d: %w", c.devices[i], err)
		}
	}
	return nil
}

// Abort makes the GPUs that wait for others stop waiting, and ranks that are inside NCCL return. NCCL
// may itself wait for a GPU that is lost, so nobody waits for NCCL here.
func (c *Collective) Abort(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	for _, comm := range c.comms {
		c.aborting.Go(func() { _ = comm.Abort() }) // ends with NCCL's call, or with the process
	}
	c.comms = nil
}

// abortTimeout is how long NCCL may take to end a group.
const abortTimeout = 10 * time.Second

// ended waits until NCCL has ended the group.
func (c *Collective) ended() error {
	ended := make(chan struct{})
	go func() { // as the aborts
		c.aborting.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-time.After(abortTimeout):
		return fmt.Errorf("NCCL has not ended the group of GPUs %v after %v", c.devices, abortTimeout)
	}
}

// Reset joins the GPUs anew.
func (c *Collective) Reset() error {
	if err := c.ended(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		return nil
	}
	comms, err := c.library.Join(c.devices)
	if err == nil {
		c.comms, c.err = comms, nil
	}
	return err
}

// Close leaves the group and frees what was gathered; the ranks are idle.
func (c *Collective) Close() {
	c.Abort(errors.New("the ranks are closed"))
	if c.ended() != nil {
		return // what a lost GPU held is lost
	}
	for _, b := range c.gathered {
		if b != nil {
			b.Free()
		}
	}
}
