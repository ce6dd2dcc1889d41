package driver

import (
	"fmt"

	"github.com/prefillonly/prefillonly/kernels/cuda"
)

// outOfMemory is CUDA_ERROR_OUT_OF_MEMORY, and cudaErrorMemoryAllocation.
const outOfMemory = 2

// lostCodes are the errors of the driver and the runtime, which share their numbers, after which the
// process must end: those of which cuda.h says so, and those of a GPU that is gone or broken. After
// any other the next pass may succeed.
var lostCodes = map[int]string{
	3:   "the driver is not initialised",
	4:   "the driver is shutting down",
	46:  "the device is unavailable",
	100: "no device",
	101: "invalid device",
	201: "invalid context",
	214: "uncorrectable ECC error",
	220: "uncorrectable NVLink error",
	226: "contained memory error",
	700: "a kernel read or wrote an illegal address",
	702: "a kernel took too long",
	709: "the context is destroyed",
	710: "assertion in a kernel",
	714: "hardware stack error",
	715: "illegal instruction",
	716: "misaligned address",
	717: "invalid address space",
	718: "invalid program counter",
	719: "a kernel failed",
	721: "tensor memory leak",
	802: "the system is not ready (is the fabric manager running?)",
	810: "the MPS client was terminated",
	999: "unknown error, as when the GPU fell off the bus",
}

// failure is the error of an operation that CUDA answered with code.
func failure(device, what string, code int, err error) error {
	if why, lost := lostCodes[code]; lost {
		return &cuda.LostError{Device: device, Err: fmt.Errorf("%s: %s (CUDA error %d); dmesg and nvidia-smi -q tell more", what, why, code)}
	}
	return fmt.Errorf("%s: %s: %w", device, what, err)
}
