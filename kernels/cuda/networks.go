package cuda

import (
	"errors"
	"fmt"
	"math"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda/cudnn"
)

// networkDevice is what the operations need of a GPU. Calls are enqueued in order.
type networkDevice interface {
	Alloc(bytes int64) (kernels.Buffer, error)
	Write(b kernels.Buffer, off int64, src []byte)
	// Address is where a buffer lies; ok is false of one that is not the device's or was freed.
	Address(b kernels.Buffer) (at uint64, ok bool)
	// Scratch is memory until the next call of it, 0 after a failure.
	Scratch(bytes int64) uint64
	// Launch runs a kernel over so many blocks of threads, with one structure of words.
	Launch(kernel string, blocks, threads int, words []uint64)
	Read(dst []byte, b kernels.Buffer, off int64)
	// Fail is the next Sync's error, unless there is one already.
	Fail(err error)
	Sync() error
	// Convolutions is a library for those that it covers, or nil.
	Convolutions() *cudnn.Convolutions
}

// networkOperations are those of kernels.Networks: host logic over launches of the kernels of src, and of convolutions of the kinds
// that a library covers. All results are float32 sums; those of our kernels one thread for each element.
type networkOperations struct {
	device networkDevice
	tables tables
}

// newNetworkOperations returns the operations of a device.
func newNetworkOperations(device networkDevice) *networkOperations {
	return &networkOperations{device, tables{device: device}}
}

// Close frees what the operations keep on the device.
func (o *networkOperations) Close() { o.tables.freeBuffers() }

// refused keeps the error of a call that does not fit.
func (o *networkOperations) refused(err error) bool {
	if err != nil {
		o.device.Fail(err)
	}
	return err != nil
}

// blockThreads of a block; PF_BLOCK of src/device.h.
const blockThreads = 256

// mostElements elements that a kernel numbers.
const mostElements = math.MaxInt32

// launch runs a kernel with a thread for each element.
func (o *networkOperations) launch(kernel string, elements int, w words) {
	o.launchBlocks(kernel, elements, (min(elements, mostElements)+blockThreads-1)/blockThreads, w)
}

// launchBlocks runs a kernel over elements with so many blocks.
func (o *networkOperations) launchBlocks(kernel string, elements, blocks int, w words) {
	switch {
	case w.err != nil:
		o.device.Fail(fmt.Errorf("%s: %w", kernel, w.err))
	case elements > mostElements:
		o.device.Fail(fmt.Errorf("%s: %d elements, at the most %d", kernel, elements, mostElements))
	case elements > 0:
		o.device.Launch(kernel, blocks, blockThreads, w.list)
	}
}

// words are a kernel's structure.
type words struct {
	device networkDevice
	list   []uint64
	err    error // the first tensor that is not on the device
}

func (o *networkOperations) newWords() words { return words{device: o.device} }

func (w *words) addInts(numbers ...int) {
	for _, n := range numbers {
		w.list = append(w.list, uint64(n))
	}
}

// addAddress adds where a tensor's first element lies.
func (w *words) addAddress(t kernels.Tensor) {
	at, ok := addressOf(w.device, t)
	if !ok && w.err == nil {
		w.err = fmt.Errorf("a tensor %v is not in this device's memory, or was freed", t.Shape)
	}
	w.list = append(w.list, at)
}

// addressOf is where a tensor's first element lies, in memory of the device or lent by it.
func addressOf(device networkDevice, t kernels.Tensor) (uint64, bool) {
	if b, ok := t.Buf.(lent); ok {
		return b.at + uint64(t.Off), true
	}
	at, ok := device.Address(t.Buf)
	return at + uint64(t.Off), ok
}

// addBuffer adds where a buffer lies; nil is 0.
func (w *words) addBuffer(b kernels.Buffer) {
	at, ok := addressOrNone(w.device, b)
	if !ok && w.err == nil {
		w.err = errForeign
	}
	w.list = append(w.list, at)
}

var errForeign = errors.New("a buffer is not in this device's memory, or was freed")

// addressOrNone is where a buffer lies; nil is 0.
func addressOrNone(device networkDevice, b kernels.Buffer) (at uint64, ok bool) {
	if b == nil {
		return 0, true
	}
	return device.Address(b)
}

// addThreeDims adds a figure of each of three dimensions, of which the first ones may lack and are missing then.
func (w *words) addThreeDims(figures []int, missing int) {
	for range 3 - len(figures) {
		w.addInts(missing)
	}
	w.addInts(figures...)
}

// addImage adds pf_image.
func (w *words) addImage(t kernels.Tensor) {
	spatial := len(t.Shape) - 2
	w.addAddress(t)
	w.addInts(t.Shape[0])
	w.addThreeDims(t.Shape[1:spatial+1], 1)
	w.addInts(t.Shape[spatial+1], t.Stride[0])
	w.addThreeDims(t.Stride[1:spatial+1], 0)
}

// window adds pf_window.
func (w *words) window(kernel, strides, dilations, origin []int) {
	w.addThreeDims(kernel, 1)
	w.addThreeDims(strides, 1)
	w.addThreeDims(dilations, 1)
	w.addThreeDims(origin, 0)
}

// addShape adds a shape, with dimensions of 1 before it.
func (w *words) addShape(shape []int) {
	for range kernels.MaxDims - len(shape) {
		w.addInts(1)
	}
	w.addInts(shape...)
}

// addView adds pf_view.
func (w *words) addView(t kernels.Tensor) {
	w.addAddress(t)
	w.addStrides(t.Stride)
}

func (w *words) addStrides(stride []int) {
	for range kernels.MaxDims - len(stride) {
		w.addInts(0)
	}
	w.addInts(stride...)
}

// mergeDims makes dimensions one that follow on one another in all tensors, which have one shape.
func mergeDims(tensors ...kernels.Tensor) []kernels.Tensor {
	out := make([]kernels.Tensor, len(tensors))
	for i, t := range tensors {
		out[i] = kernels.Tensor{Buf: t.Buf, Off: t.Off}
	}
	for d, n := range tensors[0].Shape {
		if n == 1 {
			continue
		}
		last := len(out[0].Shape) - 1
		follows := last >= 0
		for i, t := range tensors {
			follows = follows && out[i].Stride[last] == n*t.Stride[d]
		}
		for i, t := range tensors {
			if follows {
				out[i].Shape[last], out[i].Stride[last] = out[i].Shape[last]*n, t.Stride[d]
			} else {
				out[i].Shape, out[i].Stride = append(out[i].Shape, n), append(out[i].Stride, t.Stride[d])
			}
		}
	}
	return out
}
