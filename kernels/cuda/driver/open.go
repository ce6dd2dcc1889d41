//go:build cuda

package driver

// #cgo LDFLAGS: -lflash -lcudart_static -lstdc++ -ldl -lrt -lpthread
// #include "flash/flash.h"
import "C"

import (
	_ "embed"
	"fmt"
	"reflect"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/cublas"
	"github.com/prefillonly/prefillonly/kernels/cuda/cudnn"
)

// image holds the kernels of src/ for every supported architecture; make cuda compiles it.
//
//go:embed build/kernels.fatbin
var image string

// workspace is what cuDNN's plans may use beside their operands. It is taken when the device is opened, before memory is
// divided, and one call at a time uses it.
const workspace = 32 << 20

// gpu is the Device of a real GPU. All its work goes to the context's default stream, in order.
type gpu struct {
	name      string
	hopper    bool // compute capability 9
	context   cu.CUContext
	functions map[string]cu.Function
	module    cu.Module
	blas      *cublas.Library
	fp8       cuda.FP8
	int8      bool // products in int8 were tried, and are right
	workspace cu.DevicePtr
	staging   stagingRing
	laps      laps
	copies    copyQueue
	err       error

	cudnn      *cudnn.Source
	attentions *cudnn.Attentions
	convs      *cudnn.Convolutions
	within     map[cuda.Ptr]cu.DevicePtr // what was allocated to hold an aligned address
}

// Open prepares the GPU with this index for the calling goroutine's use.
func Open(index int, o Options) (cuda.Device, error) {
	count, err := cu.NumDevices()
	if err != nil {
		return nil, errNoDevice(err)
	}
	if count == 0 {
		return nil, fmt.Errorf("%w: the NVIDIA driver shows no GPU; is CUDA_VISIBLE_DEVICES empty?", ErrNoDevice)
	}
	if index >= count {
		return nil, fmt.Errorf("cuda:%d is wanted, but this machine has %d GPUs", index, count)
	}
	device, err := cu.GetDevice(index)
	if err != nil {
		return nil, fmt.Errorf("cuda:%d: %w", index, err)
	}
	g := &gpu{functions: map[string]cu.Function{}, within: map[cuda.Ptr]cu.DevicePtr{}}
	if g.name, err = device.Name(); err != nil {
		return nil, fmt.Errorf("cuda:%d: %w", index, err)
	}
	g.name = fmt.Sprintf("cuda:%d (%s)", index, g.name)
	major, err := device.Attribute(cu.ComputeCapabilityMajor)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", g.name, err)
	}
	g.hopper = major == 9
	if g.context, err = device.RetainPrimaryCtx(); err != nil {
		return nil, fmt.Errorf("%s: no context: %w", g.name, err)
	}
	g.enter()
	if g.module, err = cu.LoadData(image); err != nil {
		return nil, fmt.Errorf("%s: the kernels (sm_80, sm_89, sm_90a) cannot be loaded: %w", g.name, err)
	}
	if g.workspace, err = cu.MemAlloc(workspace); err != nil {
		return nil, fmt.Errorf("%s: no %d MiB of workspace: %w", g.name, workspace>>20, err)
	}
	if g.staging.memory, g.staging.free, err = g.Pinned(stagingBytes); err != nil {
		return nil, err
	}
	if g.blas, err = cublas.Open(o.BlasLibrary); err != nil {
		return nil, fmt.Errorf("%s: %w", g.name, err)
	}
	g.fp8 = g.probeFP8()
	g.cudnn = cudnn.NewSource(cudnn.Options{Library: o.CudnnLibrary})
	g.convs = cudnn.NewConvolutions(cudnn.ConvolutionOptions{Source: g.cudnn, Workspace: uint64(g.workspace), WorkspaceBytes: workspace, Wait: g.wait, Note: o.Note})
	if err := g.openAttention(device, o); err != nil {
		return nil, fmt.Errorf("%s: %w", g.name, err)
	}
	return g, nil
}

// enter makes the device's context current on the calling thread.
func (g *gpu) enter() { g.check("context", cu.SetCurrentContext(g.context)) }

func (g *gpu) check(what string, err error) {
	if err != nil {
		g.err = cuda.Worse(g.err, failure(g.name, what, code(err), err))
	}
}

// code is the number of an error of the driver; cu does not export the type.
func code(err error) int {
	if v := reflect.ValueOf(err); v.CanInt() {
		return int(v.Int())
	}
	return 0
}

// address is a device address as C sees it.
func address(p cuda.Ptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

func (g *gpu) Name() string { return g.name }

func (g *gpu) Close() {
	g.enter()
	g.attentions.Close()
	g.convs.Close()
	g.cudnn.Close()
	g.blas.Close()
	g.closeCopies()
	g.laps.free()
	g.staging.free()
	_ = cu.MemFree(g.workspace)
	_ = g.module.Unload()
}

func (g *gpu) Memory() (free, total int64, err error) {
	g.enter()
	if free, total, err = cu.MemInfo(); err != nil {
		return 0, 0, failure(g.name, "query of the memory", code(err), err)
	}
	return free, total, nil
}

func (g *gpu) Alloc(bytes int64) (cuda.Ptr, error) {
	g.enter()
	p, err := g.allocAligned(bytes, cuda.Alignment(bytes))
	if err != nil {
		if code(err) == outOfMemory {
			free, total, _ := cu.MemInfo()
			return 0, &cuda.MemoryError{Device: g.name, Wanted: bytes, Free: free, Total: total}
		}
		return 0, failure(g.name, fmt.Sprintf("allocation of %d MiB", bytes>>20), code(err), err)
	}
	g.check("clear", cu.MemsetD8(cu.DevicePtr(p), 0, bytes))
	return p, nil
}

func (g *gpu) Free(p cuda.Ptr) {
	g.enter()
	whole, ok := g.within[p]
	if !ok {
		whole = cu.DevicePtr(p)
	}
	delete(g.within, p)
	g.check("free", cu.MemFree(whole))
}

// Upload of a few kilobytes, such as a launch's tables, does not wait for the work before it: the
// bytes are staged in pinned memory.
func (g *gpu) Upload(dst cuda.Ptr, src []byte) {
	if len(src) == 0 {
		return
	}
	g.enter()
	if len(src) > stagedUpload {
		g.check("upload", cu.MemcpyHtoD(cu.DevicePtr(dst), unsafe.Pointer(&src[0]), int64(len(src))))
		return
	}
	staged := g.stage(len(src))
	copy(staged, src)
	g.check("upload", cu.MemcpyHtoDAsync(cu.DevicePtr(dst), unsafe.Pointer(&staged[0]), int64(len(src)), cu.Stream{}))
}

func (g *gpu) Download(dst []byte, src cuda.Ptr) {
	if len(dst) == 0 {
		return
	}
	g.enter()
	g.check("download", cu.MemcpyDtoH(unsafe.Pointer(&dst[0]), cu.DevicePtr(src), int64(len(dst))))
}

// Copy is in order with all else that is enqueued.
func (g *gpu) Copy(dst, src cuda.Ptr, bytes int64) {
	g.enter()
	g.check("copy", cu.MemcpyDtoDAsync(cu.DevicePtr(dst), cu.DevicePtr(src), bytes, cu.Stream{}))
}

func (g *gpu) Launch(kernel string, grid [2]int, threads int, args ...uint64) {
	if grid[0] == 0 || grid[1] == 0 {
		return // the driver refuses a launch of nothing
	}
	g.enter()
	f, ok := g.functions[kernel]
	if !ok {
		var err error
		if f, err = g.module.Function(kernel); err != nil {
			g.check("kernel "+kernel, err)
			return
		}
		g.functions[kernel] = f
	}
	params := make([]unsafe.Pointer, len(args))
	for i := range args {
		params[i] = unsafe.Pointer(&args[i])
	}
	g.check(kernel, f.Launch(grid[0], grid[1], 1, threads, 1, 1, 0, cu.Stream{}, params))
}

// Covers follows what flash/ instantiates; its loads move 16 bytes.
func (g *gpu) Covers(f cuda.Flash) bool {
	if f.Heads.Dim != 64 && f.Heads.Dim != 128 || f.QStride%8 != 0 || f.OStride%8 != 0 {
		return false
	}
	return g.hopper || f.OStride == f.Heads.Q*f.Heads.Dim
}

func (g *gpu) Flash(f cuda.Flash) {
	g.enter()
	args := C.pf_flash{
		q: address(f.Q), k: address(f.K), v: address(f.V), o: address(f.O),
		q_stride: C.int64_t(f.QStride), o_stride: C.int64_t(f.OStride), key_stride: C.int64_t(f.KeyStride), kv_head_stride: C.int64_t(f.HeadStride),
		rows: C.int64_t(f.Rows), keys: C.int64_t(f.Keys), q_heads: C.int64_t(f.Heads.Q), kv_heads: C.int64_t(f.Heads.KV),
		scale: C.float(f.Scale),
	}
	var status C.int
	if g.hopper {
		status = C.pf_flash_sm90(&args, C.int(f.Heads.Dim), nil)
	} else {
		status = C.pf_flash_sm80(&args, C.int(f.Heads.Dim), nil)
	}
	if status != 0 {
		g.err = cuda.Worse(g.err, failure(g.name, "attention", int(status), fmt.Errorf("%d rows over %d keys failed with the runtime's status %d", f.Rows, f.Keys, int(status))))
	}
}

// wait returns when all work enqueued so far is done, but for copies, which have a stream of their own.
func (g *gpu) wait() { g.check("synchronise", cu.Stream{}.Synchronize()) }

// Convolutions is cuDNN, where it can be opened.
func (g *gpu) Convolutions() *cudnn.Convolutions { return g.convs }

func (g *gpu) Sync() error {
	g.enter()
	g.wait()
	err := g.err
	g.err = nil
	return err
}
