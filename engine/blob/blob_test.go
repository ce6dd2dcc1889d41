package blob

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		roles[role]()
		return
	}
	goleak.VerifyTestMain(m)
}

// newStore opens a Store that the test closes.
func newStore(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := NewStore(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func newReader(t testing.TB, dir string) *Reader {
	r := NewReader(dir)
	t.Cleanup(func() { r.Close() })
	return r
}

func put(t testing.TB, s *Store, data []byte) string {
	t.Helper()
	name, err := s.Put(data)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// ways runs a test with a store on this host, and with one over TLS.
func ways(t *testing.T, test func(t *testing.T, cfg Config, dir string)) {
	t.Run("host", func(t *testing.T) { dir := t.TempDir(); test(t, Config{Limit: 1 << 20, Dir: dir}, dir) })
	t.Run("net", func(t *testing.T) { test(t, Config{Limit: 1 << 20, Listen: "127.0.0.1:0"}, t.TempDir()) })
}

// TestAgainstMap holds that a Store is a map from names to bytes whose slots never take more than its limit,
// and which refuses a blob only when that is so.
func TestAgainstMap(t *testing.T) {
	ways(t, func(t *testing.T, cfg Config, dir string) {
		s, r := newStore(t, cfg), newReader(t, dir)
		random := rand.New(rand.NewPCG(1, 2))
		model, names := map[string][]byte{}, []string{}
		var released []string
		refused := 0
		for range 3000 {
			switch op := random.IntN(10); {
			case op < 5:
				data := make([]byte, random.IntN(100<<random.IntN(11)))
				for i := range data {
					data[i] = byte(random.Uint32())
				}
				held := slotBytes(len(data))
				for _, b := range model {
					held += slotBytes(len(b))
				}
				var name string
				var err error
				waitFor(time.Second, func() bool { // a goroutine that has sent a blob may not have let go of it yet
					name, err = s.Put(data)
					return err == nil || held > int(cfg.Limit)
				})
				if (held > int(cfg.Limit)) != errors.Is(err, ErrFull) || err != nil && !errors.Is(err, ErrFull) {
					t.Fatalf("%d bytes, so that %d would be held of %d: %v", len(data), held, cfg.Limit, err)
				}
				if err != nil {
					refused++
					break
				}
				if model[name] != nil {
					t.Fatalf("%s again", name)
				}
				model[name], names = data, append(names, name)
			case op < 8 && len(names) > 0:
				name := names[random.IntN(len(names))]
				got := make([]byte, len(model[name]))
				if err := r.Read(name, got); err != nil || !bytes.Equal(got, model[name]) {
					t.Fatalf("%s: %v", name, err)
				}
				if err := r.Read(name, make([]byte, len(got)+1)); !errors.Is(err, ErrSize) || !strings.Contains(err.Error(), fmt.Sprint(len(got))) {
					t.Fatalf("of another size: %v", err)
				}
			case len(names) > 0:
				i := random.IntN(len(names))
				s.Release(names[i])
				delete(model, names[i])
				released = append(released, names[i])
				names = append(names[:i], names[i+1:]...)
			}
			if len(released) > 0 {
				if err := r.Read(released[random.IntN(len(released))], nil); !errors.Is(err, ErrGone) {
					t.Fatalf("released: %v", err)
				}
			}
			var stat unix.Stat_t
			if err := unix.Fstat(int(s.arena.file.Fd()), &stat); err != nil || stat.Blocks*512 > cfg.Limit || s.arena.taken > cfg.Limit {
				t.Fatalf("%d bytes of memory, %d by the books, limit %d, %v", stat.Blocks*512, s.arena.taken, cfg.Limit, err)
			}
		}
		if refused < 10 || len(released) < 100 {
			t.Errorf("%d blobs refused, %d released", refused, len(released))
		}
	})
}

// TestFull holds that a refusal names both figures, of a blob that can never fit too.
func TestFull(t *testing.T) {
	s := newStore(t, Config{Limit: 100_000, Dir: t.TempDir()})
	put(t, s, make([]byte, 50_000))
	for _, c := range []struct {
		holder string
		n      int
		want   string
	}{
		{"", 60_000, "your requests hold 53248 of the 100000 that they may beside 0 of others, and 61440 more are asked for"},
		{"", 200_000, "212992 are asked for, and one key may have 100000"},
		{"a", 36_000, "your requests hold 0 of the 35064 that they may beside 53248 of others, and 36864 more are asked for"},
	} {
		_, err := s.PutFor(c.holder, make([]byte, c.n))
		if want := fmt.Sprintf("blob: put %d bytes: no room for a blob: %s", c.n, c.want); !errors.Is(err, ErrFull) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	name, err := s.PutFor("a", make([]byte, 30_000))
	if err != nil {
		t.Fatal(err)
	}
	s.Release(name)
	if held := s.shares.Held(); held != 53248 {
		t.Errorf("%d bytes are counted after a release", held)
	}
}

// TestReleaseWhileRead holds that a read gives a blob's bytes or an error, and never those of the blob that came
// into its slot.
func TestReleaseWhileRead(t *testing.T) {
	ways(t, func(t *testing.T, cfg Config, dir string) {
		const size = 200_000
		s, r := newStore(t, cfg), newReader(t, dir)
		var current atomic.Pointer[string]
		var fill atomic.Uint32
		name := put(t, s, make([]byte, size))
		current.Store(&name)
		stop := make(chan struct{})
		var group sync.WaitGroup
		group.Go(func() { // ends with stop
			for {
				select {
				case <-stop:
					return
				default:
				}
				old := *current.Load()
				next, err := s.Put(bytes.Repeat([]byte{byte(fill.Add(1))}, size))
				if err != nil {
					t.Error(err)
					return
				}
				current.Store(&next)
				s.Release(old)
			}
		})
		read, gone := 0, 0
		dst := make([]byte, size)
		for start := time.Now(); time.Since(start) < time.Second/2; {
			err := r.Read(*current.Load(), dst)
			switch {
			case errors.Is(err, ErrGone):
				gone++
			case err != nil:
				t.Fatal(err)
			default:
				read++
				if i := bytes.IndexFunc(dst, func(b rune) bool { return byte(b) != dst[0] }); dst[0] < 0x80 && i >= 0 {
					t.Fatalf("%d at 0 and %d at %d", dst[0], dst[i], i)
				}
			}
		}
		close(stop)
		group.Wait()
		if read == 0 || gone == 0 {
			t.Errorf("%d read, %d gone", read, gone)
		}
	})
}

// TestHold holds that only a store with Hold lets readers release, and that it drops what nobody releases.
func TestHold(t *testing.T) {
	ways(t, func(t *testing.T, cfg Config, dir string) {
		for _, hold := range []time.Duration{0, time.Hour} {
			cfg.Hold = hold
			s, r := newStore(t, cfg), newReader(t, dir)
			a, b := put(t, s, []byte("a")), put(t, s, []byte("b"))
			held := func(name string) bool { return r.Read(name, make([]byte, 1)) == nil }
			if err := r.Take(a, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			patience := 20 * time.Millisecond
			if hold > 0 {
				patience = 10 * time.Second
			}
			if waitFor(patience, func() bool { return !held(a) }) != (hold > 0) || !held(b) {
				t.Errorf("hold %v: a, which was taken, is held: %v, b: %v", hold, held(a), held(b))
			}
			s.mu.Lock()
			if armed := s.timer != nil; armed != (hold > 0) {
				t.Errorf("hold %v: something is to be dropped later: %v", hold, armed)
			}
			s.sweepExpired(time.Now().Add(hold - time.Minute))
			s.mu.Unlock()
			if !held(b) {
				t.Errorf("hold %v: b is dropped a minute too soon", hold)
			}
			s.mu.Lock()
			s.sweepExpired(time.Now().Add(hold))
			s.mu.Unlock()
			if held(b) == (hold > 0) {
				t.Errorf("hold %v: b is held: %v", hold, held(b))
			}
		}
	})
}

// waitFor waits until done, for at most d.
func waitFor(d time.Duration, done func() bool) bool {
	for start := time.Now(); time.Since(start) < d; time.Sleep(time.Millisecond) {
		if done() {
			return true
		}
	}
	return false
}

// TestGivesBack holds that memory is used again for blobs that come soon, and given back when none come.
func TestGivesBack(t *testing.T) {
	s := newStore(t, Config{Limit: 1 << 20, Dir: t.TempDir()})
	for range 10 {
		s.Release(put(t, s, make([]byte, 100_000)))
	}
	if s.arena.end != int64(slotBytes(100_000)) {
		t.Errorf("%d bytes of file for blobs of 100000 one after another", s.arena.end)
	}
	s.mu.Lock()
	s.sweepExpired(time.Now().Add(keepFor / 2))
	half := s.arena.taken
	s.sweepExpired(time.Now().Add(2 * keepFor))
	s.mu.Unlock()
	var stat unix.Stat_t
	if err := unix.Fstat(int(s.arena.file.Fd()), &stat); err != nil || half == 0 || s.arena.taken != 0 || stat.Blocks != 0 {
		t.Errorf("%d bytes kept after half the time, %d after it, %d blocks, %v", half, s.arena.taken, stat.Blocks, err)
	}
}

// TestClosed holds what is left after the end of either side.
func TestClosed(t *testing.T) {
	ways(t, func(t *testing.T, cfg Config, dir string) {
		s, r := newStore(t, cfg), newReader(t, dir)
		name := put(t, s, []byte("abc"))
		dst := make([]byte, 3)
		if err := r.Read(name, dst); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Put(dst); err == nil {
			t.Error("a closed store takes a blob")
		}
		s.Release(name)
		if !waitFor(time.Second, func() bool {
			err := r.Read(name, dst)
			return errors.Is(err, ErrGone) || errors.Is(err, ErrAway)
		}) {
			t.Error("a closed store is read")
		}
		r.Close()
		if err := r.Read(name, dst); err == nil || errors.Is(err, ErrGone) {
			t.Errorf("a closed reader: %v", err)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
}

// TestStrangersKeepNoReaderOut: as many connections as there may be that say nothing, and more of them, leave a place for a
// reader, which then stays.
func TestStrangersKeepNoReaderOut(t *testing.T) {
	s, r, data := newStore(t, Config{Limit: 1 << 20, Listen: "127.0.0.1:0"}), newReader(t, ""), []byte("a tensor")
	flood := func() {
		for range maxConns + 10 {
			conn, err := net.Dial("tcp", s.place.address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
		}
		if !waitFor(10*time.Second, func() bool { return s.server.connections() >= maxConns-1 }) {
			t.Fatalf("%d connections", s.server.connections())
		}
	}
	read := func() {
		got := make([]byte, len(data))
		if err := r.Read(put(t, s, data), got); err != nil || string(got) != string(data) {
			t.Errorf("%q: %v", got, err)
		}
	}
	flood()
	read()
	flood()
	read()
}

func FuzzName(f *testing.F) {
	f.Add("0123456789abcdef/1000/000102030405060708090a0b0c0d0e0f")
	f.Add(strings.Repeat("A", 43) + "@[::1]:7000/0/f00102030405060708090a0b0c0d0e0f")
	f.Add("../../etc/passwd/0/000102030405060708090a0b0c0d0e0f")
	f.Add("................/0/000102030405060708090a0b0c0d0e0f")
	f.Add("0123456789abcdef/-1/000102030405060708090a0b0c0d0e0f")
	f.Add("0123456789abcdef/fffffffffffffff/000102030405060708090a0b0c0d0e0f")
	f.Fuzz(func(t *testing.T, text string) {
		n, err := parseName(text)
		if err != nil {
			if !errors.Is(err, ErrName) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if n.String() != text || n.secret == (secret{}) || n.offset < 0 || len(text) > maxName {
			t.Errorf("%q is read as %q", text, n.String())
		}
		if (n.place.store == "") == (n.place.address == "") {
			t.Errorf("%q is at %+v", text, n.place)
		}
		if n.place.address == "" && filepath.Dir(socketPath("/run/dir", n.place.store)) != "/run/dir" {
			t.Errorf("%q leads to %s", text, socketPath("/run/dir", n.place.store))
		}
	})
}

// connections is how many there are.
func (v *server) connections() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.known) + len(v.strangers)
}
