package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func parse(t *testing.T, text string) Trace {
	t.Helper()
	trace, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

// arrivals reads all and notes when each byte came.
func arrivals(from io.Reader, began time.Time) (data []byte, at []time.Duration) {
	for p := make([]byte, 4096); ; {
		n, err := from.Read(p)
		data = append(data, p[:n]...)
		for range n {
			at = append(at, time.Since(began))
		}
		if err != nil {
			return data, at
		}
	}
}

// TestAsTheLinkSays: in both directions, the last byte of each write comes when the pure link says, and all bytes come in order.
func TestAsTheLinkSays(t *testing.T) {
	for seed, text := range []string{"400kbit", "0s:400kbit,3s:0,8s:1Mbit", "100Mbit", "0s:0,2s:50kbit"} {
		for _, up := range []bool{true, false} {
			t.Run(fmt.Sprint(text, " up ", up), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					const rtt = 80 * time.Millisecond
					trace := parse(t, text)
					near, far := net.Pipe()
					s := NewShaper(trace, rtt)
					conn := s.Conn(near)
					defer conn.Close()
					var from, to net.Conn = conn, far
					if !up {
						from, to = far, conn
					}
					pure := New(trace, burst, rtt)
					r := rand.New(rand.NewPCG(uint64(seed), 1))
					var sent []byte
					var ends []int
					var want []time.Duration
					go func() {
						for range 30 {
							data := make([]byte, 1+r.IntN(6000))
							for i := range data {
								data[i] = byte(r.Uint32())
							}
							want = append(want, pure.Send(time.Since(s.began), len(data)))
							if _, err := from.Write(data); err != nil {
								t.Error(err)
							}
							sent = append(sent, data...)
							ends = append(ends, len(sent))
							time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
						}
						time.Sleep(time.Minute) // what is on its way when a connection is closed is lost
						from.Close()
					}()
					data, at := arrivals(to, s.began)
					if !bytes.Equal(data, sent) {
						t.Fatalf("%d bytes came of %d, or others", len(data), len(sent))
					}
					for i, end := range ends {
						if off := at[end-1] - want[i]; off.Abs() > time.Millisecond {
							t.Errorf("write %d, up to byte %d, came at %v, want %v", i, end, at[end-1], want[i])
						}
					}
					if n := conn.Unacknowledged(); n != 0 {
						t.Errorf("%d bytes are said to be on their way", n)
					}
				})
			})
		}
	}
}

// TestNothingPasses: at no rate nothing comes, what is written is said to be on its way, and closing ends those who wait.
func TestNothingPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		conn := NewShaper(parse(t, "0"), 0).Conn(near)
		ended := make(chan error, 2)
		go func() { _, err := conn.Write(make([]byte, 5000)); ended <- err }()
		go func() { _, err := conn.Read(make([]byte, 10)); ended <- err }()
		go func() { _, _ = far.Write(make([]byte, 10)) }() // it may be taken in, or not
		came := make(chan int)
		go func() { n, _ := far.Read(make([]byte, 10)); came <- n }()
		time.Sleep(time.Hour)
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("someone waits no more: %v", err)
		case n := <-came:
			t.Fatalf("%d bytes passed", n)
		default:
		}
		if n := conn.Unacknowledged(); n != 5000 {
			t.Errorf("%d bytes are said to be on their way, want 5000", n)
		}
		conn.Close()
		for range 2 {
			if err := <-ended; !errors.Is(err, net.ErrClosed) {
				t.Errorf("after it was closed: %v", err)
			}
		}
		if n := <-came; n != 0 {
			t.Errorf("%d bytes passed", n)
		}
		if _, err := conn.Write([]byte{1}); err == nil {
			t.Error("a closed connection took something")
		}
	})
}

// TestEndComesBehindData: the other side's end comes last, and later than it was.
func TestEndComesBehindData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		conn := NewShaper(parse(t, "80kbit"), 2*time.Second).Conn(near)
		defer conn.Close()
		go func() {
			_, _ = far.Write(make([]byte, 25_000))
			far.Close()
		}()
		began := time.Now()
		data, err := io.ReadAll(conn)
		if took := time.Since(began); err != nil || len(data) != 25_000 || (took-3500*time.Millisecond).Abs() > time.Millisecond {
			t.Errorf("%d bytes after %v, %v", len(data), took, err)
		}
	})
}

// TestDial: opening a connection takes a round trip, and waits for a link that carries nothing.
func TestDial(t *testing.T) {
	for text, want := range map[string]time.Duration{"1Mbit": 200 * time.Millisecond, "0s:0,5s:1Mbit": 5200 * time.Millisecond, "0": time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			began := time.Now()
			conn, err := NewShaper(parse(t, text), 200*time.Millisecond).Dial(func(context.Context, string, string) (net.Conn, error) {
				near, _ := net.Pipe()
				return near, nil
			})(ctx, "tcp", "host:1")
			if took := time.Since(began); (took - want).Abs() > 5*time.Millisecond {
				t.Errorf("%s: it took %v, want %v", text, took, want)
			}
			if (err != nil) != (text == "0") {
				t.Errorf("%s: %v", text, err)
			}
			if err == nil {
				conn.Close()
			}
		})
	}
}

func TestLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace")
	if err := os.WriteFile(file, []byte("0 80\n1 800\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]float64{file: 110_000, "80kbit": 20_000} {
		trace, err := LoadTrace(text)
		if got := trace.Bytes(0, 2*time.Second); err != nil || got != want {
			t.Errorf("%s: %v bytes in 2 s, %v", text, got, err)
		}
	}
	if _, err := LoadTrace("fast"); err == nil {
		t.Error("fast is taken for a rate")
	}
}
