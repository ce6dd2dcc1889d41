package blob

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// roleEnv lets this test be another process, dirEnv is where that finds what it needs, or makes it.
const (
	roleEnv = "BLOB_TEST_ROLE"
	dirEnv  = "BLOB_TEST_DIR"
)

var roles = map[string]func(){
	"host owner": func() { own(Config{Limit: 8 << 20, Dir: os.Getenv(dirEnv)}) },
	"net owner":  func() { own(Config{Limit: 8 << 20, Listen: "127.0.0.1:0"}) },
	"reader":     readForever,
	"stranger":   stranger,
}

const blobBytes = 1 << 20

// own puts a blob, says its name, and waits to be killed.
func own(cfg Config) {
	s, err := NewStore(cfg)
	if err != nil {
		panic(err)
	}
	name, err := s.Put(bytes.Repeat([]byte{7}, blobBytes))
	if err != nil {
		panic(err)
	}
	fmt.Println(name)
	select {}
}

// readForever reads the blobs whose names it is told.
func readForever() {
	r := NewReader(os.Getenv(dirEnv))
	dst := make([]byte, blobBytes)
	names := bufio.NewScanner(os.Stdin)
	names.Scan()
	for name := names.Text(); ; {
		if err := r.Read(name, dst); err != nil {
			panic(err)
		}
		fmt.Println("read")
	}
}

// stranger connects to the store in a directory, twice, and says what it gets without and with looking whose
// the store is.
func stranger() {
	paths, _ := filepath.Glob(filepath.Join(os.Getenv(dirEnv), "blob-*"))
	for _, look := range []bool{false, true} {
		conn, err := net.Dial("unix", paths[0])
		if err != nil {
			panic(err)
		}
		if look {
			_, err = receiveMemory(conn.(*net.UnixConn))
			fmt.Println(err)
			continue
		}
		rights := make([]byte, 64)
		n, m, _, _, err := conn.(*net.UnixConn).ReadMsgUnix(make([]byte, 1), rights)
		fmt.Println(n, m, errors.Is(err, io.EOF))
	}
}

// process starts this test in a role. Its lines come from the reader that is returned.
func process(t *testing.T, role, dir, input string, attr *syscall.SysProcAttr) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+role, dirEnv+"="+dir)
	cmd.Stderr, cmd.Stdin, cmd.SysProcAttr = os.Stderr, strings.NewReader(input), attr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd, bufio.NewReader(out)
}

func line(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	text, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(text)
}

// memories counts the stores' memories that this process has open.
func memories() (n int) {
	links, _ := filepath.Glob("/proc/self/fd/*")
	for _, l := range links {
		if to, _ := os.Readlink(l); strings.Contains(to, "prefillonly-blobs") {
			n++
		}
	}
	return n
}

// TestOwnerKilled holds that reads of a killed process's blobs are right until they fail, that they fail soon
// and with a type, and that nothing is left of it: no memory here, and no socket after the next start.
func TestOwnerKilled(t *testing.T) {
	for _, role := range []string{"host owner", "net owner"} {
		t.Run(role, func(t *testing.T) {
			dir := t.TempDir()
			cmd, out := process(t, role, dir, "", nil)
			name := line(t, out)
			r := newReader(t, dir)
			dst, want := make([]byte, blobBytes), bytes.Repeat([]byte{7}, blobBytes)
			reads, start := 0, time.Now()
			var err error
			for ; err == nil; reads++ {
				if reads == 20 {
					go cmd.Process.Kill() // while it is read
				}
				clear(dst)
				if err = r.Read(name, dst); err == nil && !bytes.Equal(dst, want) {
					t.Fatal("other bytes")
				}
				if time.Since(start) > 10*time.Second {
					t.Fatal("a dead process's blob is read")
				}
			}
			_ = cmd.Wait()
			if wanted := map[string]error{"host owner": ErrGone, "net owner": ErrAway}[role]; !errors.Is(err, wanted) || reads < 20 {
				t.Errorf("after %d reads: %v, want %v", reads, err, wanted)
			}
			if err := r.Read(name, dst); !errors.Is(err, ErrGone) && !errors.Is(err, ErrAway) {
				t.Errorf("later: %v", err)
			}
			if n := memories(); n > 0 {
				t.Errorf("%d memories of a dead process are open", n)
			}
			newStore(t, Config{Limit: 1 << 20, Dir: dir})
			if left, _ := os.ReadDir(dir); len(left) != 1 {
				t.Errorf("in the directory: %v", left)
			}
		})
	}
}

// TestReaderKilled holds that a reader's death costs its store nothing.
func TestReaderKilled(t *testing.T) {
	for way, cfg := range map[string]Config{"host": {Limit: 2 << 20, Dir: t.TempDir()}, "net": {Limit: 2 << 20, Listen: "127.0.0.1:0"}} {
		t.Run(way, func(t *testing.T) {
			s := newStore(t, cfg)
			name := put(t, s, make([]byte, blobBytes))
			for range 3 {
				cmd, out := process(t, "reader", cfg.Dir, name+"\n", nil)
				for range 5 {
					line(t, out)
				}
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				_ = cmd.Wait()
			}
			if !waitFor(2*time.Second, func() bool { return s.server.connections() == 0 }) {
				t.Errorf("%d connections of dead readers", s.server.connections())
			}
			s.Release(name)
			s.mu.Lock()
			defer s.mu.Unlock()
			if len(s.held) != 0 || len(s.arena.kept) != 1 {
				t.Errorf("%d blobs held, %d slots kept", len(s.held), len(s.arena.kept))
			}
		})
	}
}

// TestOtherUser holds that a process of another user gets no memory, though it may reach the socket.
func TestOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be another user")
	}
	dir, err := os.MkdirTemp("", "blob")
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s := newStore(t, Config{Limit: 1 << 20, Dir: dir})
	if err := os.Chmod(socketPath(dir, s.place.store), 0o777); err != nil {
		t.Fatal(err)
	}
	self, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(dir+"/test", self, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(dir + "/test")
	cmd.Dir, cmd.Env = dir, []string{roleEnv + "=stranger", dirEnv + "=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if want := "0 0 true\na process of user 0, this is one of user 65534\n"; err != nil || string(out) != want {
		t.Errorf("%s, %v", out, err)
	}
}

// TestFalseStore holds that a reader believes no store: not that there is memory, nor that it is long enough,
// nor what is in it.
func TestFalseStore(t *testing.T) {
	const text = "0123456789abcdef/1000/000102030405060708090a0b0c0d0e0f"
	n, err := parseName(text)
	if err != nil {
		t.Fatal(err)
	}
	with := func(length int64, size uint64) func(*os.File) {
		return func(f *os.File) {
			b, _ := binary.Append(nil, binary.LittleEndian, &header{n.secret, size})
			_, _ = f.WriteAt(b, n.offset)
			_ = f.Truncate(length)
		}
	}
	for what, c := range map[string]struct {
		files int
		fill  func(*os.File)
		want  error
	}{
		"right":                {1, with(0x1000+headerBytes+8, 8), nil},
		"no memory":            {0, nil, ErrAway},
		"two":                  {2, with(0x1000+headerBytes+8, 8), ErrAway},
		"empty":                {1, func(*os.File) {}, ErrGone},
		"ends in the header":   {1, with(0x1000+10, 8), ErrGone},
		"ends in the blob":     {1, with(0x1000+headerBytes+5, 8), ErrSize},
		"ends before the blob": {1, with(0x1000+headerBytes, 8), ErrSize},
		"of another size":      {1, with(0x1000+headerBytes+8, 1<<63), ErrSize},
		"of another secret":    {1, func(f *os.File) { n := n; n.secret[0]++; with(1<<14, 8)(f); _, _ = f.WriteAt(n.secret[:], n.offset) }, ErrGone},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			l, err := net.Listen("unix", socketPath(dir, n.place.store))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			fd, err := unix.MemfdCreate("false", 0)
			if err != nil {
				t.Fatal(err)
			}
			memory := os.NewFile(uintptr(fd), "false")
			defer memory.Close()
			if c.fill != nil {
				c.fill(memory)
			}
			go func() { // ends with the listener
				conn, err := l.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				fds := []int{fd, fd}[:c.files]
				_, _, _ = conn.(*net.UnixConn).WriteMsgUnix([]byte{0}, unix.UnixRights(fds...), nil)
				_, _ = conn.Read(make([]byte, 1))
			}()
			r := newReader(t, dir)
			if err := r.Read(text, make([]byte, 8)); !errors.Is(err, c.want) || c.want != nil && err == nil {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

// TestFalsePeers holds that over TLS a reader takes bytes from the store of the name alone, and that a store
// gives them to those alone who know it.
func TestFalsePeers(t *testing.T) {
	s := newStore(t, Config{Limit: 1 << 20, Listen: "127.0.0.1:0"})
	other := newStore(t, Config{Limit: 1 << 20, Listen: "127.0.0.1:0"})
	r := newReader(t, t.TempDir())
	n, err := parseName(put(t, s, []byte("abc")))
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(n *name){
		"another secret":  func(n *name) { n.secret[15]++ },
		"another offset":  func(n *name) { n.offset += 4096 },
		"no page":         func(n *name) { n.offset++ },
		"another process": func(n *name) { n.place.address = other.place.address },
	} {
		n := n
		change(&n)
		if err := r.Read(n.String(), make([]byte, 3)); !errors.Is(err, ErrGone) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := r.Read(n.String(), make([]byte, 3)); err != nil {
		t.Error(err)
	}
	conn, err := net.Dial("tcp", s.place.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = conn.Write(bytes.Repeat([]byte("GET / HTTP/1.1\r\n"), 10))
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if answer, err := io.ReadAll(conn); len(answer) > 16 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a stranger is told %q, %v", answer, err)
	}
	secure, err := dialNet(s.place)
	if err != nil {
		t.Fatal(err)
	}
	defer secure.Close()
	_, _ = secure.Write(bytes.Repeat([]byte{99}, 100))
	_ = secure.SetDeadline(time.Now().Add(time.Second))
	if answer, err := io.ReadAll(secure); len(answer) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("what no request is was answered with %q, %v", answer, err)
	}
}

// TestSilentStore holds that a store that does not answer costs its readers one wait, and no other store's any.
func TestSilentStore(t *testing.T) {
	dir := t.TempDir()
	l, err := net.Listen("unix", socketPath(dir, "0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // it never accepts
	s, r := newStore(t, Config{Limit: 1 << 20, Dir: dir}), newReader(t, dir)
	name := put(t, s, make([]byte, 8))
	read := func(name string) (time.Duration, error) {
		start := time.Now()
		err := r.Read(name, make([]byte, 8))
		return time.Since(start), err
	}
	waited := make(chan error, 1)
	go func() { // ends with the wait
		_, err := read("0123456789abcdef/1000/000102030405060708090a0b0c0d0e0f")
		waited <- err
	}()
	time.Sleep(10 * time.Millisecond)
	if took, err := read(name); err != nil || took > dialTimeout/2 {
		t.Errorf("another store was read after %v: %v", took, err)
	}
	if err := <-waited; !errors.Is(err, ErrAway) {
		t.Errorf("a silent store: %v", err)
	}
	if took, err := read("0123456789abcdef/1000/000102030405060708090a0b0c0d0e0f"); !errors.Is(err, ErrAway) || took > dialTimeout/2 {
		t.Errorf("again after %v: %v", took, err)
	}
}
