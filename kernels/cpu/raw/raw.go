//go:build cgo && linux && amd64

package raw

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra
#include "raw.h"
*/
import "C"

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Instruction is a multiply-add.
type Instruction int

// Multiply-adds of floats in vectors of 8 and 16, of pairs of bfloat16 and fours of int8 in vectors of 16,
// and of both in tiles.
const (
	VFMADD8 Instruction = iota
	VFMADD16
	VDPBF16PS
	VPDPBUSD
	TDPBF16PS
	TDPBSSD
)

// sample is how long a loop is measured: much shorter than the clock's moves.
const sample = 400 * time.Microsecond

func (i Instruction) String() string {
	return [...]string{"vfmadd-ymm", "vfmadd-zmm", "vdpbf16ps", "vpdpbusd", "tdpbf16ps", "tdpbssd"}[i]
}

// Supported tells whether this process may use the instruction.
func (i Instruction) Supported() bool { return C.raw_supported(C.raw_instruction(i)) != 0 }

// Rate is the sum of the rates, in operations a nanosecond, of loops on so many threads at once, the
// caller's thread among them: a caller locked to its thread measures the core that it runs on.
func (i Instruction) Rate(threads int) float64 {
	rates := make([]float64, threads)
	var ready atomic.Int32
	var done sync.WaitGroup
	measure := func(thread int) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for ready.Add(1); ready.Load() < int32(threads); {
		}
		rates[thread] = i.rate()
	}
	for thread := 1; thread < threads; thread++ {
		done.Go(func() { measure(thread) })
	}
	measure(0)
	done.Wait()
	sum := 0.0
	for _, r := range rates {
		sum += r
	}
	return sum
}

// rate repeats the loop for the time of a sample, in processor time of the thread.
func (i Instruction) rate() float64 {
	start := C.raw_nanoseconds()
	operations := C.double(0)
	for C.raw_nanoseconds()-start < C.double(sample.Nanoseconds()) {
		operations += C.raw_run(C.raw_instruction(i), 1000)
	}
	return float64(operations / (C.raw_nanoseconds() - start))
}
