//go:build cuda

package driver

// #include <cuda.h>
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/prefillonly/prefillonly/kernels/cuda"
)

// copyMarks is how many marks have events of their own. An older mark's event stands for a later mark:
// to wait for that is to wait for both.
const copyMarks = 512

// copyQueue is the stream of copies and the events of its marks, made at the first copy. It is made of
// the driver's own calls, as package cu cannot pass on a copy of many pieces.
type copyQueue struct {
	stream C.CUstream // nil: there is none yet
	order  C.CUevent
	events [copyMarks]C.CUevent // nil: not used yet
	marks  uint64
}

func (g *gpu) checkDriver(what string, status C.CUresult) {
	g.err = cuda.Worse(g.err, g.driverError(what, status))
}

// driverError is the error of a call of the driver's own that answered with status; nil if it went well.
func (g *gpu) driverError(what string, status C.CUresult) error {
	if status == C.CUDA_SUCCESS {
		return nil
	}
	return failure(g.name, what, int(status), fmt.Errorf("CUDA error %d", int(status)))
}

// openCopies makes the stream, which neither waits for the default stream nor is waited for.
func (g *gpu) openCopies() *copyQueue {
	g.enter()
	q := &g.copies
	if q.stream == nil {
		var stream C.CUstream
		g.checkDriver("copy stream", C.cuStreamCreate(&stream, C.CU_STREAM_NON_BLOCKING))
		q.stream, q.order = stream, g.newEvent()
	}
	return q
}

func (g *gpu) newEvent() C.CUevent {
	var event C.CUevent
	g.checkDriver("event", C.cuEventCreate(&event, C.CU_EVENT_DISABLE_TIMING))
	return event
}

func (g *gpu) closeCopies() {
	q := &g.copies
	if q.stream == nil {
		return
	}
	C.cuStreamSynchronize(q.stream)
	for _, e := range q.events {
		if e != nil {
			C.cuEventDestroy(e)
		}
	}
	C.cuEventDestroy(q.order)
	C.cuStreamDestroy(q.stream)
	*q = copyQueue{}
}

// CopyOut implements HostCopies.
func (g *gpu) CopyOut(dst []byte, src cuda.Ptr, p cuda.Pieces) {
	g.copy(p, C.CUDA_MEMCPY2D{
		srcMemoryType: C.CU_MEMORYTYPE_DEVICE, srcDevice: C.CUdeviceptr(src),
		dstMemoryType: C.CU_MEMORYTYPE_HOST, dstHost: unsafe.Pointer(unsafe.SliceData(dst)),
	})
}

// CopyIn implements HostCopies.
func (g *gpu) CopyIn(dst cuda.Ptr, src []byte, p cuda.Pieces) {
	g.copy(p, C.CUDA_MEMCPY2D{
		srcMemoryType: C.CU_MEMORYTYPE_HOST, srcHost: unsafe.Pointer(unsafe.SliceData(src)),
		dstMemoryType: C.CU_MEMORYTYPE_DEVICE, dstDevice: C.CUdeviceptr(dst),
	})
}

// copy enqueues a copy of pieces as the rows of a matrix.
func (g *gpu) copy(p cuda.Pieces, c C.CUDA_MEMCPY2D) {
	c.WidthInBytes, c.Height = C.size_t(p.Bytes), C.size_t(p.Count)
	c.srcPitch, c.dstPitch = C.size_t(p.Stride), C.size_t(p.Stride)
	g.checkDriver("copy", C.cuMemcpy2DAsync(&c, g.openCopies().stream))
}

// OrderCopies implements HostCopies.
func (g *gpu) OrderCopies() {
	q := g.openCopies()
	g.checkDriver("event", C.cuEventRecord(q.order, nil))
	g.checkDriver("event", C.cuStreamWaitEvent(q.stream, q.order, 0))
}

// MarkCopies implements HostCopies.
func (g *gpu) MarkCopies() uint64 {
	q := g.openCopies()
	event := &q.events[q.marks%copyMarks]
	if *event == nil {
		*event = g.newEvent()
	}
	g.checkDriver("event", C.cuEventRecord(*event, q.stream))
	q.marks++
	return q.marks
}

// AwaitCopies implements HostCopies.
func (g *gpu) AwaitCopies(mark uint64) {
	if mark > 0 {
		g.checkDriver("event", C.cuStreamWaitEvent(nil, g.openCopies().events[(mark-1)%copyMarks], 0))
	}
}
