//go:build cuda

package cuda

// #include <cuda_runtime_api.h>
import "C"

import (
	"fmt"
	"unsafe"
)

// copyMarks is how many marks have events of their own. An older mark's event stands for a later mark:
// to wait for that is to wait for both.
const copyMarks = 512

// copyQueue is the stream of copies and the events of its marks, made at the first copy.
type copyQueue struct {
	stream C.cudaStream_t
	order  C.cudaEvent_t
	events [copyMarks]C.cudaEvent_t
	marks  uint64
}

func (g *gpu) checkRuntime(what string, status C.cudaError_t) {
	if status != C.cudaSuccess {
		g.err = worse(g.err, failure(g.name, what, int(status), fmt.Errorf("the runtime's status %d", int(status))))
	}
}

// openCopies makes the stream, which the default stream does not wait for.
func (g *gpu) openCopies() *copyQueue {
	g.enter()
	q := &g.copies
	if q.stream == nil {
		g.checkRuntime("copy stream", C.cudaStreamCreateWithFlags(&q.stream, C.cudaStreamNonBlocking))
		g.checkRuntime("event", C.cudaEventCreateWithFlags(&q.order, C.cudaEventDisableTiming))
	}
	return q
}

func (g *gpu) closeCopies() {
	q := &g.copies
	if q.stream == nil {
		return
	}
	C.cudaStreamSynchronize(q.stream)
	for _, e := range q.events {
		if e != nil {
			C.cudaEventDestroy(e)
		}
	}
	C.cudaEventDestroy(q.order)
	C.cudaStreamDestroy(q.stream)
	*q = copyQueue{}
}

// CopyOut implements HostCopies.
func (g *gpu) CopyOut(dst []byte, src Ptr, p Pieces) {
	g.copy(unsafe.Pointer(unsafe.SliceData(dst)), address(src), p, C.cudaMemcpyDeviceToHost)
}

// CopyIn implements HostCopies.
func (g *gpu) CopyIn(dst Ptr, src []byte, p Pieces) {
	g.copy(address(dst), unsafe.Pointer(unsafe.SliceData(src)), p, C.cudaMemcpyHostToDevice)
}

func (g *gpu) copy(dst, src unsafe.Pointer, p Pieces, kind uint32) {
	q := g.openCopies()
	if p.Count == 1 || p.Stride == p.Bytes {
		g.checkRuntime("copy", C.cudaMemcpyAsync(dst, src, C.size_t(int64(p.Count)*p.Bytes), kind, q.stream))
		return
	}
	g.checkRuntime("copy", C.cudaMemcpy2DAsync(dst, C.size_t(p.Stride), src, C.size_t(p.Stride), C.size_t(p.Bytes), C.size_t(p.Count), kind, q.stream))
}

// OrderCopies implements HostCopies.
func (g *gpu) OrderCopies() {
	q := g.openCopies()
	g.checkRuntime("event", C.cudaEventRecord(q.order, nil))
	g.checkRuntime("event", C.cudaStreamWaitEvent(q.stream, q.order, 0))
}

// MarkCopies implements HostCopies.
func (g *gpu) MarkCopies() uint64 {
	q := g.openCopies()
	event := &q.events[q.marks%copyMarks]
	if *event == nil {
		g.checkRuntime("event", C.cudaEventCreateWithFlags(event, C.cudaEventDisableTiming))
	}
	g.checkRuntime("event", C.cudaEventRecord(*event, q.stream))
	q.marks++
	return q.marks
}

// AwaitCopies implements HostCopies.
func (g *gpu) AwaitCopies(mark uint64) {
	if mark == 0 {
		return
	}
	q := g.openCopies()
	g.checkRuntime("event", C.cudaStreamWaitEvent(nil, q.events[(mark-1)%copyMarks], 0))
}
