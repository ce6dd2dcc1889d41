package supervise

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Socket is a listener's socket, for Child.Files, in addition to the listener's own descriptor. It stays non-blocking, unlike
// that of net.TCPListener.File, which blocks again when it is handed to a process: the mode belongs to the socket that all
// processes share, and a listener that loses the race for a connection meanwhile waits in accept, beyond what Close ends.
func Socket(listener *net.TCPListener) (*os.File, error) {
	raw, err := listener.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd, failed := -1, error(nil)
	if err := raw.Control(func(own uintptr) { fd, failed = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return nil, err
	}
	if failed != nil {
		return nil, fmt.Errorf("duplicate the socket of %v: %w", listener.Addr(), failed)
	}
	return os.NewFile(uintptr(fd), listener.Addr().String()), nil
}
