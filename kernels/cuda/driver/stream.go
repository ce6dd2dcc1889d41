//go:build cuda

package driver

import (
	"unsafe"

	"gorgonia.org/cu"

	"github.com/prefillonly/prefillonly/kernels/cuda"
)

// UploadPinned copies on the default stream, so that the copy comes after the clearing of its target,
// and notes its end by an event.
func (g *gpu) UploadPinned(dst cuda.Ptr, src []byte) (done func()) {
	if len(src) == 0 {
		return func() {}
	}
	g.enter()
	g.check("upload", cu.MemcpyHtoDAsync(cu.DevicePtr(dst), unsafe.Pointer(&src[0]), int64(len(src)), cu.Stream{}))
	event, err := cu.MakeEvent(cu.DisableTiming)
	if err != nil {
		g.check("event", err)
		return g.wait
	}
	g.check("event", event.Record(cu.Stream{}))
	return func() {
		g.enter()
		g.check("upload", event.Synchronize())
		g.check("event", cu.DestroyEvent(&event))
	}
}
