package device

import (
	"fmt"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/kernels/tensorparallel"
)

// padding is by how much packed weights may exceed their size: the kernels' tiles are filled up.
const padding = 1.0 / 64

// openCPU hosts the models on the processor, in what memory is left of the machine's and of the process's
// cgroups.
func openCPU(o Options) (Runner, error) {
	backend, err := openCPUBackend(o)
	if err != nil {
		return nil, err
	}
	available, err := availableMemory()
	if err != nil {
		backend.Close()
		return nil, err
	}
	options := hostOptions(o, backend, o.limitMemory(available)/int64(o.Ranks), available)
	options.Limits.Padding = padding
	return openHost(options, o.Models)
}

func openCPUBackend(o Options) (kernels.Backend, error) {
	if o.Ranks > 1 {
		return openCPURanks(o)
	}
	backend, err := cpu.New(cpu.Config{Threads: o.Threads})
	if err != nil {
		return nil, &Error{Device, err}
	}
	return backend, nil
}

// openCPURanks divides the threads among the ranks, which meet in this machine's memory, and the nodes
// of that memory where there are as many.
func openCPURanks(o Options) (kernels.Backend, error) {
	threads := o.Threads
	if threads == 0 {
		threads = cpu.DefaultThreads()
	}
	if threads < o.Ranks {
		return nil, &Error{Configuration, fmt.Errorf("--tensor-parallel-size %d is more than the %d threads to divide", o.Ranks, threads)}
	}
	allowed, err := mayUse()
	if err != nil {
		return nil, &Error{Device, err}
	}
	nodes := processorsOf(o.Ranks, numaNodes, allowed)
	open := make([]func() (kernels.Rank, error), o.Ranks)
	for i := range open {
		own := (i+1)*threads/o.Ranks - i*threads/o.Ranks
		open[i] = func() (kernels.Rank, error) {
			if nodes != nil {
				if err := pinThread(nodes[i]); err != nil { // before the rank starts its threads
					return nil, err
				}
			}
			return cpu.New(cpu.Config{Threads: own})
		}
	}
	return openRanks(open, tensorparallel.JoinShared, kernels.F32)
}
