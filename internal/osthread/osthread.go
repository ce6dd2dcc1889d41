// Package osthread runs a function on an OS thread of its own, for devices whose state belongs to a
// thread and for parents whose death signal does, and tells what a thread has taken of the processor.
package osthread

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Do calls f on a goroutine that is locked to its OS thread and waits until it returns. The thread
// ends with f, so nothing that f did to it outlives the call.
func Do(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the runtime then ends the thread
		done <- f()
	}()
	return <-done
}

// Time is the processor's time of this thread so far. A goroutine that compares two is locked to its thread.
func Time() time.Duration {
	var at unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at) != nil {
		return 0
	}
	return time.Duration(at.Nano())
}

// Measure calls f and tells what it took of the processor on its thread, C included.
func Measure(f func() error) (time.Duration, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := Time()
	err := f()
	return Time() - before, err
}
