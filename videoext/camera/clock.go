package camera

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime is the processor's time of this thread.
func threadTime() time.Duration {
	var at unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at) != nil {
		return 0
	}
	return time.Duration(at.Nano())
}
