package nccl

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda"
)

// Group is GPUs that NCCL joins: a tensorparallel.Collective. NCCL only copies, so how it does so cannot change a sum.
type Group struct {
	library  *Library
	devices  []int
	ranks    []*cuda.Backend
	gathered []kernels.Buffer // of each rank, owned by its thread

	mu       sync.Mutex
	comms    []*Comm        // guarded by mu; nil once aborted
	err      error          // guarded by mu: of Abort
	aborting sync.WaitGroup // aborts that NCCL has not ended
}

// Join makes a group of ranks, whose GPUs have these numbers. library is the path of libnccl, or empty to find it by its
// usual names.
func Join(ranks []*cuda.Backend, devices []int, library string) (*Group, error) {
	l, err := Open(library)
	if err != nil {
		return nil, err
	}
	comms, err := l.Join(devices)
	if err != nil {
		return nil, err
	}
	return &Group{library: l, devices: devices, ranks: ranks, comms: comms, gathered: make([]kernels.Buffer, len(ranks))}, nil
}

// Gather enqueues the copies; what is enqueued after it sees all partials.
func (g *Group) Gather(rank int, partial kernels.Mat) ([]kernels.Mat, error) {
	if partial.Stride != partial.Cols {
		return nil, fmt.Errorf("partial sums of %d columns have rows %d elements apart", partial.Cols, partial.Stride)
	}
	b, bytes := g.ranks[rank], int64(partial.Rows)*int64(partial.Cols)*partial.Type.Size()
	held := &g.gathered[rank]
	if need := bytes * int64(len(g.ranks)); *held == nil || (*held).Bytes() < need {
		if *held != nil {
			(*held).Free()
		}
		var err error
		if *held, err = b.Alloc(need); err != nil {
			return nil, fmt.Errorf("gathered partial sums: %w", err)
		}
	}
	comm, err := g.rankComm(rank)
	if err != nil {
		return nil, err
	}
	if err := comm.AllGather(uint64(cuda.Address(*held)), uint64(cuda.Address(partial.Buf)+cuda.Ptr(partial.Off)), bytes); err != nil {
		return nil, err
	}
	all := make([]kernels.Mat, len(g.ranks))
	for i := range all {
		all[i] = kernels.Mat{Buf: *held, Off: int64(i) * bytes, Rows: partial.Rows, Cols: partial.Cols, Stride: partial.Cols, Type: partial.Type}
	}
	return all, nil
}

func (g *Group) rankComm(rank int) (*Comm, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return nil, g.err
	}
	return g.comms[rank], nil
}

// Check asks NCCL for failures beside the calls.
func (g *Group) Check() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, comm := range g.comms {
		if err := comm.Err(); err != nil {
			return fmt.Errorf("cuda:%d: %w", g.devices[i], err)
		}
	}
	return nil
}

// Abort makes the GPUs that wait for others stop waiting, and ranks that are inside NCCL return. NCCL
// may itself wait for a GPU that is lost, so nobody waits for NCCL here.
func (g *Group) Abort(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return
	}
	g.err = err
	for _, comm := range g.comms {
		g.aborting.Go(func() { _ = comm.Abort() }) // ends with NCCL's call, or with the process
	}
	g.comms = nil
}

// abortTimeout is how long NCCL may take to end a group.
const abortTimeout = 10 * time.Second

// ended waits until NCCL has ended the group.
func (g *Group) ended() error {
	ended := make(chan struct{})
	go func() { // as the aborts
		g.aborting.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-time.After(abortTimeout):
		return fmt.Errorf("NCCL has not ended the group of GPUs %v after %v", g.devices, abortTimeout)
	}
}

// Reset joins the GPUs anew.
func (g *Group) Reset() error {
	if err := g.ended(); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		return nil
	}
	comms, err := g.library.Join(g.devices)
	if err == nil {
		g.comms, g.err = comms, nil
	}
	return err
}

// Close leaves the group and frees what was gathered; the ranks are idle.
func (g *Group) Close() {
	g.Abort(errors.New("the ranks are closed"))
	if g.ended() != nil {
		return // what a lost GPU held is lost
	}
	for _, b := range g.gathered {
		if b != nil {
			b.Free()
		}
	}
}
