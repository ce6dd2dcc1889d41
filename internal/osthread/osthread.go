// Package osthread runs a function on an OS thread of its own, for devices whose state belongs to a
// thread and for parents whose death signal does.
package osthread

import "runtime"

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
