package camera

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// queued is a connection that knows what of it is not acknowledged.
type queued interface{ Unacknowledged() int }

// unacknowledgedBytes is how many bytes the other host has not said that it has; 0 where that is not known.
func unacknowledgedBytes(conn net.Conn) (n int) {
	switch c := conn.(type) {
	case queued:
		return c.Unacknowledged()
	case syscall.Conn:
		raw, err := c.SyscallConn()
		if err != nil {
			return 0
		}
		_ = raw.Control(func(fd uintptr) { // the connection may be closed: then n is 0
			n, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) // not all sockets know
		})
	}
	return n
}
