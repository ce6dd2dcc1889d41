//go:build cuda

package driver

// #include <cuda.h>
import "C"

import (
	"fmt"
	"unsafe"
)

// stagedUpload bounds the uploads that go through stagingBytes of pinned memory: a copy from
// ordinary memory would wait for all work before it, which a pass of few rows feels.
const (
	stagedUpload = 64 << 10
	stagingBytes = 4 << 20
)

// stagingRing is pinned memory of uploads that may still be on their way.
type stagingRing struct {
	memory []byte
	at     int
	free   func()
}

// stage returns n bytes that no upload reads any more; n is at most stagedUpload.
func (g *gpu) stage(n int) []byte {
	r := &g.staging
	if r.at+n > len(r.memory) {
		g.wait()
		r.at = 0
	}
	from := r.at
	r.at += n
	return r.memory[from:r.at]
}

// Pinned returns page-locked host memory, which copies to and from without detours, and what frees it.
func (g *gpu) Pinned(bytes int) (memory []byte, free func(), err error) {
	g.enter()
	var p unsafe.Pointer
	what := fmt.Sprintf("%d MiB of pinned memory", bytes>>20)
	if err := g.driverError(what, C.cuMemHostAlloc(&p, C.size_t(bytes), 0)); err != nil {
		return nil, nil, fmt.Errorf("%w; is there a limit on locked memory (ulimit -l)?", err)
	}
	return unsafe.Slice((*byte)(p), bytes), func() {
		g.enter()
		C.cuMemFreeHost(p)
	}, nil
}
