package exchange

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/apikey"
)

// sender is the client's side of a request whose body is on its way.
type sender struct {
	net.Conn
	done chan *Refusal
}

// deadlined is a ResponseWriter on a connection.
type deadlined struct {
	http.ResponseWriter
	net.Conn
}

func (d deadlined) Write(b []byte) (int, error) { return d.ResponseWriter.Write(b) }

// send begins to read a body of so many bytes on an owner's behalf, or an address's.
func send(s *Shared, owner apikey.Owner, address string, length int64) *sender {
	client, server := net.Pipe()
	r := httptest.NewRequest(http.MethodPost, "/", io.LimitReader(server, length))
	r.ContentLength, r.RemoteAddr = length, address
	x, _, r := s.Begin(deadlined{httptest.NewRecorder(), server}, r)
	x.Owner = owner
	to := &sender{client, make(chan *Refusal, 1)}
	go func() { // ends with the body
		b, refused := x.ReadCoded(r)
		if refused == nil {
			b.Release()
		}
		x.End()
		server.Close()
		to.done <- refused
	}()
	return to
}

// drip sends n times so many bytes, each after a pause, and returns what waits for the end of that.
func (s *sender) drip(n, size int, pause time.Duration) (ended func()) {
	var group sync.WaitGroup
	group.Go(func() {
		for range n {
			time.Sleep(pause)
			_, _ = s.Write(make([]byte, size)) // it fails when the body is refused
		}
	})
	return group.Wait
}

func newBodies(most int64) *Shared {
	return NewShared(Config{MaxBody: most, BodyTimeout: time.Minute, Draining: func() bool { return false }, Log: zap.NewNop()})
}

// TestHalfSentBodiesLeaveRoom: the bodies that one key, or one address, sends to a half and no further take none of the room that
// others need, and when no more comes they hold nothing.
func TestHalfSentBodiesLeaveRoom(t *testing.T) {
	keys, err := apikey.NewRing([]string{"one team", "two team", "other"}, "", apikey.IsolateKeys)
	if err != nil {
		t.Fatal(err)
	}
	owner := func(key string) apikey.Owner { o, _ := keys.Find(key); return o }
	for name, who := range map[string]struct {
		owners    []apikey.Owner
		addresses []string
	}{
		"keys":      {[]apikey.Owner{owner("one"), owner("two"), owner("other")}, []string{"10.0.0.1:1", "10.0.0.1:2", "10.0.0.1:3"}},
		"addresses": {make([]apikey.Owner, 3), []string{"[2001:db8::1]:1", "[2001:db8::2]:1", "[2001:db8:0:1::1]:1"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const most = 1 << 20
				s := newBodies(most)
				var half []*sender
				for i := range 2 * bodyBudget {
					c := send(s, who.owners[i%2], who.addresses[i%2], most)
					_, _ = c.Write(make([]byte, most/2)) // refused ones do not take it
					half = append(half, c)
				}
				synctest.Wait()
				refused := 0
				for _, c := range half {
					select {
					case r := <-c.done:
						if refused++; r == nil || r.Status != http.StatusTooManyRequests || r.retryAfter == 0 || !strings.Contains(r.Body.Message, "your requests hold") {
							t.Errorf("refused with %+v", r)
						}
					default:
					}
				}
				if held := s.Held(); held > bodyBudget*most*3/4 || held < bodyBudget*most/2 || refused == 0 {
					t.Errorf("%d bodies are refused, the others hold %d bytes", refused, held)
				}
				other := send(s, who.owners[2], who.addresses[2], most)
				if _, err := other.Write(make([]byte, most)); err != nil {
					t.Errorf("another's body: %v", err)
				}
				if r := <-other.done; r != nil {
					t.Errorf("another's body is refused: %d %s", r.Status, r.Body.Message)
				}
				time.Sleep(stallTimeout)
				synctest.Wait()
				if held := s.Held(); held != 0 {
					t.Errorf("bodies that have stopped coming hold %d bytes", held)
				}
			})
		})
	}
}

// TestSlowBodies: a large body comes as slowly as the steps allow, and no longer than a body may take; one that stops is told so.
func TestSlowBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 128 << 10
		for _, c := range []struct {
			step  int
			pause time.Duration
			want  string // of the refusal; empty: it is read
		}{
			{bodyStep, stallTimeout - time.Millisecond, ""},
			{bodyStep, stallTimeout + time.Millisecond, "stopped after"},
			{bodyStep / 2, stallTimeout*2/3 + time.Millisecond, "bring 16384 bytes in 5s"},
			{bodyStep / 8, stallTimeout/8 - time.Millisecond, ""},
		} {
			s := newBodies(size)
			to := send(s, apikey.Owner{}, "", size)
			ended := to.drip(size/c.step, c.step, c.pause)
			r := <-to.done
			ended()
			if (r == nil) != (c.want == "") || r != nil && (r.Status != http.StatusRequestTimeout || !strings.Contains(r.Body.Message, c.want)) {
				t.Errorf("%d bytes each %v: %+v", c.step, c.pause, r)
			}
			if s.Held() != 0 {
				t.Errorf("%d bytes are still counted", s.Held())
			}
		}
		s := newBodies(1 << 20)
		to, began := send(s, apikey.Owner{}, "", 1<<20), time.Now()
		defer to.drip(64, bodyStep, stallTimeout/2)()
		if r := <-to.done; r == nil || !strings.Contains(r.Body.Message, "did not come within 1m0s") || time.Since(began) != time.Minute {
			t.Errorf("after %v: %+v", time.Since(began), r)
		}
	})
}
