package frontend

import "runtime/debug"

// What one request took counts from largeRequest on, and when giveBackAt of that has come together, it is
// given back to the system: the runtime alone may keep it for minutes.
const (
	largeRequest = 8 << 20
	giveBackAt   = 32 << 20
)

// giveBack notes that a request ends which took so much memory.
func (f *Frontend) giveBack(bytes int64) {
	if bytes < largeRequest {
		return
	}
	if released := f.released.Add(bytes); released >= giveBackAt && f.released.CompareAndSwap(released, 0) {
		go debug.FreeOSMemory() // ends by itself
	}
}
