package cuda

import (
	"errors"
	"fmt"
)

// LostError says that a device computes no more for this process: its context is broken, or the GPU
// is gone. Only a new process can go on, with this GPU or another.
type LostError struct {
	Device string // e.g. "cuda:0 (NVIDIA H200)"
	Err    error
}

func (e *LostError) Error() string {
	return fmt.Sprintf("%s is lost to this process: %v", e.Device, e.Err)
}

func (e *LostError) Unwrap() error { return e.Err }

// DeviceLost tells an executor that its runner is of no use any more.
func (*LostError) DeviceLost() bool { return true }

// MemoryError says that a device has too little free memory, in bytes. The device works on.
type MemoryError struct {
	Device              string
	Wanted, Free, Total int64
}

func (e *MemoryError) Error() string {
	return fmt.Sprintf("%s: out of memory: %d MiB wanted, %d of %d MiB are free", e.Device, e.Wanted>>20, e.Free>>20, e.Total>>20)
}

// Worse is the error to report of two that came one after the other: the first, unless only the
// second says that the device is lost, which explains both.
func Worse(first, second error) error {
	var lost *LostError
	if first == nil || !errors.As(first, &lost) && errors.As(second, &lost) {
		return second
	}
	return first
}
