package supervise

import (
	"context"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSocketStaysNonBlocking: a process that is started with a socket leaves it as those that wait at it need it.
func TestSocketStaysNonBlocking(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	socket, err := Socket(listener.(*net.TCPListener))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	stop, cancel := context.WithCancel(context.Background())
	c := child("polite")
	c.Files = []*os.File{socket}
	_, ended := start(t, c, stop, context.Background())
	defer func() {
		cancel()
		<-ended
	}()
	raw, err := listener.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		if flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK == 0 {
			t.Errorf("the socket's flags are %#x, %v: it blocks", flags, err)
		}
	}); err != nil {
		t.Fatal(err)
	}
}
