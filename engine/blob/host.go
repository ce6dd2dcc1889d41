package blob

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// socketPath is where a store listens; what begins with a dot there does not listen yet. Names are short, as paths of sockets are.
func socketPath(dir, store string) string { return filepath.Join(dir, "blob-"+store) }

// CheckDir says why no store can listen in a directory: the path of a unix socket has at most 107 bytes.
func CheckDir(dir string) error {
	const longest = 107 - len("/blob-0123456789abcdef")
	if len(dir) > longest {
		return fmt.Errorf("the directory %s has %d bytes, those of sockets have at most %d: choose a shorter one", dir, len(dir), longest)
	}
	return nil
}

// serveHost lets processes of this user find the store in dir.
func (s *Store) serveHost(dir string) (*server, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	sweepDir(dir)
	var id [8]byte
	_, _ = rand.Read(id[:])
	s.place = place{store: hex.EncodeToString(id[:])}
	path := socketPath(dir, s.place.store)
	l, err := listenUnix(path)
	if err != nil {
		return nil, err
	}
	// Readers get the memory to read it.
	memory, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", s.arena.file.Fd()))
	if err != nil {
		return nil, errors.Join(err, l.Close(), os.Remove(path))
	}
	v := &server{store: s, listener: l, idle: idleHost, remove: func() error { return errors.Join(memory.Close(), os.Remove(path)) }}
	v.greet = func(conn net.Conn) error { return sendMemory(conn.(*net.UnixConn), memory) }
	return v.start(), nil
}

// listenUnix makes a socket that others see once it listens, so that none takes it for one left behind.
func listenUnix(path string) (net.Listener, error) {
	hidden := filepath.Join(filepath.Dir(path), strings.Replace(filepath.Base(path), "blob-", ".", 1))
	l, err := net.Listen("unix", hidden)
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(hidden, 0o600), os.Rename(hidden, path)); err != nil {
		return nil, errors.Join(err, l.Close(), os.Remove(hidden))
	}
	return l, nil
}

// sweepDir removes the sockets of processes that were killed. Their memory is gone with them.
func sweepDir(dir string) {
	stores, _ := fs.Glob(os.DirFS(dir), "blob-????????????????")
	for _, file := range stores {
		path := filepath.Join(dir, file)
		conn, err := net.DialTimeout("unix", path, dialTimeout)
		if err == nil {
			conn.Close()
		} else if errors.Is(err, syscall.ECONNREFUSED) {
			_ = os.Remove(path)
		}
	}
}

// sendMemory gives the memory to a process of the same user.
func sendMemory(conn *net.UnixConn, memory *os.File) error {
	if err := sameUser(conn); err != nil {
		return err
	}
	_, _, err := conn.WriteMsgUnix([]byte{0}, unix.UnixRights(int(memory.Fd())), nil)
	return err
}

// receiveMemory takes the memory that hand gives.
func receiveMemory(conn *net.UnixConn) (*os.File, error) {
	if err := sameUser(conn); err != nil {
		return nil, err
	}
	var filler [1]byte                          // descriptors travel with bytes
	rights := make([]byte, unix.CmsgSpace(4*4)) // with more than one descriptor, since all that come are to be closed
	n, m, _, _, err := conn.ReadMsgUnix(filler[:], rights)
	messages, _ := unix.ParseSocketControlMessage(rights[:m])
	var fds []int
	for i := range messages {
		got, _ := unix.ParseUnixRights(&messages[i])
		fds = append(fds, got...)
	}
	if len(fds) == 1 {
		return os.NewFile(uintptr(fds[0]), "blobs"), nil
	}
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return nil, fmt.Errorf("%d bytes and %d descriptors in place of a store's memory: %w", n, len(fds), err)
}

// sameUser refuses a process of another user.
func sameUser(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	e := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(e, err); err == nil && int(peer.Uid) != os.Geteuid() {
		err = fmt.Errorf("a process of user %d, this is one of user %d", peer.Uid, os.Geteuid())
	}
	return err
}

// neighbour is a store of another process of this host, whose memory is read directly.
type neighbour struct {
	path string
	lost func() // called once the store is known to be gone

	once   sync.Once
	conn   *net.UnixConn // set in once, with memory, or err is
	memory *os.File
	err    error
}

func (s *neighbour) dial() error {
	conn, err := net.DialTimeout("unix", s.path, dialTimeout)
	switch {
	case errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: the process that held it has ended", ErrGone)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrAway, err)
	}
	s.conn = conn.(*net.UnixConn)
	_ = conn.SetDeadline(time.Now().Add(dialTimeout))
	switch s.memory, err = receiveMemory(s.conn); {
	case errors.Is(err, syscall.ECONNRESET): // it had taken the connection, or was about to
		return fmt.Errorf("%w: the process that held it has ended", ErrGone)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrAway, err)
	}
	_ = conn.SetDeadline(time.Time{})
	go func() { // ends with the connection, which close closes
		_, _ = conn.Read(make([]byte, 1)) // the store has nothing to say
		s.lost()
	}()
	return nil
}

// open connects at the first call. After a failure another neighbour may try, some time later.
func (s *neighbour) open() error {
	s.once.Do(func() {
		if s.err = s.dial(); s.err != nil {
			time.AfterFunc(retryAfter, s.lost) // it ends by itself
		}
	})
	return s.err
}

func (s *neighbour) read(n *name, dst []byte) error {
	if err := s.open(); err != nil {
		return err
	}
	if err := s.check(n, len(dst)); err != nil {
		return err
	}
	if got, err := s.memory.ReadAt(dst, n.offset+headerBytes); err == io.EOF {
		return fmt.Errorf("%w: it ends after %d bytes", ErrSize, got)
	} else if err != nil {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	return s.check(n, len(dst)) // it may have been released meanwhile
}

// check looks at the header of the blob's slot.
func (s *neighbour) check(n *name, want int) error {
	var h header
	err := binary.Read(io.NewSectionReader(s.memory, n.offset, headerBytes), binary.LittleEndian, &h)
	switch {
	case errors.Is(err, os.ErrClosed):
		return fmt.Errorf("%w: %w", ErrGone, err)
	case err != nil || h.Secret != n.secret:
		return errReleased
	case h.Size != uint64(want):
		return fmt.Errorf("%w: %d bytes", ErrSize, h.Size)
	}
	return nil
}

func (s *neighbour) release(n *name) error {
	if err := s.open(); err != nil {
		return err
	}
	_ = s.conn.SetWriteDeadline(time.Now().Add(ioTimeout))
	return binary.Write(s.conn, binary.LittleEndian, &request{opRelease, n.offset, n.secret})
}

func (s *neighbour) close() {
	s.once.Do(func() { s.err = net.ErrClosed })
	if s.conn != nil {
		s.conn.Close()
	}
	if s.memory != nil {
		s.memory.Close()
	}
}
