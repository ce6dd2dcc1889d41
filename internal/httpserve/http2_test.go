package httpserve

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// The frames that tests send and look for, beside those of frames.go.
const (
	framePriority     = 2
	frameReset        = 3
	frameSettings     = 4
	framePing         = 6
	frameGoAway       = 7
	frameWindow       = 8
	frameContinuation = 9
)

func frame(kind, flags byte, stream uint32, payload ...byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	b = append(b, flags)
	return append(binary.BigEndian.AppendUint32(b, stream), payload...)
}

// The header blocks of GET / and POST /, and the settings by which no byte of a body may be sent.
var (
	getRoot  = []byte{0x82, 0x86, 0x84, 0x01, 1, 'x'}
	postRoot = []byte{0x83, 0x86, 0x84, 0x01, 1, 'x'}
	noWindow = []byte{0, 4, 0, 0, 0, 0}
)

// get asks on a stream.
func get(stream uint32) []byte { return frame(frameHeaders, 5, stream, getRoot...) }

// dialHTTP2 opens a connection with settings, and sends frames.
func (s *served) dialHTTP2(settings []byte, frames ...[]byte) *net.TCPConn {
	s.Helper()
	return s.dial(preface + string(frame(frameSettings, 0, 0, settings...)) + string(bytes.Join(frames, nil)))
}

// awaitFrame reads up to the next frame of a type, and returns its payload.
func (s *served) awaitFrame(c net.Conn, kind byte) []byte {
	s.Helper()
	for {
		header := make([]byte, frameHeaderBytes)
		if _, err := io.ReadFull(c, header); err != nil {
			s.Fatalf("waiting for a frame of type %d: %v", kind, err)
		}
		payload := make([]byte, binary.BigEndian.Uint32(header[:4])>>8)
		if _, err := io.ReadFull(c, payload); err != nil {
			s.Fatal(err)
		}
		if header[3] == kind {
			return payload
		}
	}
}

// answered reports whether another client gets its answer.
func (s *served) answered() {
	s.Helper()
	if text, _ := s.read(s.dial("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")); !strings.HasPrefix(text, "HTTP/1.1 200") {
		s.Errorf("another client got %.100q", text)
	}
}

// TestStreamsBeyondABound: streams of HTTP/2 count as connections do, and those beyond a bound are told so, or reset where nobody reads that.
func TestStreamsBeyondABound(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := serve(t, Config{MaxPerAddress: 3, TurnAway: func(b Bound, limit int) (int, string, []byte) {
		return http.StatusTooManyRequests, "text/plain", fmt.Append(nil, b, " ", limit)
	}}, func(http.ResponseWriter, *http.Request) { <-release })
	c := s.dialHTTP2(nil, get(1), get(3), get(5))
	s.eventually("three requests are in flight", func() bool { return s.InFlight() == 3 })
	if _, err := c.Write(get(7)); err != nil {
		t.Fatal(err)
	}
	if text := s.awaitFrame(c, frameData); string(text) != "address 3" {
		t.Errorf("the fourth stream got %q", text)
	}
	if text, _ := s.read(s.dial("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); !strings.HasPrefix(text, "HTTP/1.1 429") {
		t.Errorf("another connection got %q", text)
	}
	if n := s.Connections(); n.Open != 1 || n.RefusedAddress != 2 {
		t.Errorf("counts %+v", n)
	}
	close(release)
	s.eventually("no request is in flight", func() bool { return s.InFlight() == 0 })
	s.answered()
	c.Close()
	s.eventually("nothing is counted", func() bool {
		s.conns.mu.Lock()
		defer s.conns.mu.Unlock()
		return s.conns.counted == 0 && len(s.conns.from) == 0
	})
}

// TestUnreadStreamsDrain: streams whose answers cannot be sent, or whose bodies do not come, neither stretch a drain nor make it fail.
func TestUnreadStreamsDrain(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{DrainTimeout: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			_, _ = w.Write(make([]byte, 10<<10))
		}
	})
	for range 3 {
		s.dialHTTP2(noWindow, get(1), get(3), frame(frameHeaders, 4, 5, postRoot...), frame(frameData, 0, 5, 'a'))
		s.dialHTTP2(nil, frame(frameHeaders, 1, 1, getRoot[:3]...)) // a header that goes on
	}
	s.dialHTTP2(nil)
	s.eventually("all are open", func() bool { return s.Connections().Open == 7 && s.InFlight() == 9 })
	begun := time.Now()
	s.stop()
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 2*prompt {
		t.Errorf("the drain took %v", took)
	}
}

// TestFrameFloods: a client that sends frames which ask for nothing is cut off, and others are answered.
func TestFrameFloods(t *testing.T) {
	open := frame(frameHeaders, 4, 1, postRoot...)
	for _, c := range []struct {
		name  string
		first []byte
		flood func(i uint32) []byte
	}{
		{"priorities", nil, func(i uint32) []byte { return frame(framePriority, 0, 2*i+1, 0, 0, 0, 0, 1) }},
		{"window updates", nil, func(uint32) []byte { return frame(frameWindow, 0, 0, 0, 0, 0, 1) }},
		{"settings", nil, func(uint32) []byte { return frame(frameSettings, 0, 0) }},
		{"pings", nil, func(uint32) []byte { return frame(framePing, 0, 0, make([]byte, 8)...) }},
		{"resets", nil, func(i uint32) []byte { return append(get(2*i+1), frame(frameReset, 0, 2*i+1, 0, 0, 0, 8)...) }},
		{"continuations", frame(frameHeaders, 1, 1, getRoot...), func(uint32) []byte { return frame(frameContinuation, 0, 1) }},
		{"empty pieces of a body", open, func(uint32) []byte { return frame(frameData, 0, 1) }},
		{"bytes of a body one by one", open, func(uint32) []byte { return frame(frameData, 0, 1, 'a') }},
		{"unknown frames", nil, func(uint32) []byte { return frame(0x42, 0, 0, 'x') }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
				select { // an answer earns frames
				case <-r.Context().Done():
				case <-time.After(5 * prompt * time.Duration(r.ProtoMajor-1)):
				}
			})
			flooding := s.dialHTTP2(nil, c.first)
			go func() { _, _ = io.Copy(io.Discard, flooding) }() // ends with the connection
			sent := uint32(0)
			for err := error(nil); err == nil; sent++ {
				if sent > 1e6 {
					t.Fatal("a million frames were taken")
				}
				_, err = flooding.Write(c.flood(sent))
			}
			s.eventually("the connection is closed", func() bool { return s.Connections().Open == 0 })
			if n := s.Connections(); n.CutFrames != 1 {
				t.Errorf("after %d frames, counts %+v", sent, n)
			}
			s.answered()
		})
	}
}

// TestFramesOfClients: a client that asks much and reads its answers, in small pieces too, is not cut off.
func TestFramesOfClients(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for range 200 {
			_, _ = w.Write(make([]byte, 5000))
			_ = http.NewResponseController(w).Flush()
		}
	})
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	defer transport.CloseIdleConnections()
	failed := make(chan error)
	for range 8 {
		go func() { // ends with its requests
			var err error
			for i := 0; i < 40 && err == nil; i++ {
				var answer *http.Response
				if answer, err = (&http.Client{Transport: transport}).Post("http://"+s.address, "", bytes.NewReader(make([]byte, 100<<10))); err == nil {
					_, err = io.Copy(io.Discard, answer.Body)
					answer.Body.Close()
				}
			}
			failed <- err
		}()
	}
	for range 8 {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	if n := s.Connections(); n.CutFrames != 0 {
		t.Errorf("counts %+v", n)
	}
}

// TestFramesEarned: what a client may send follows what it asked for and what it was sent.
func TestFramesEarned(t *testing.T) {
	now := time.Unix(1, 0)
	pings := func(n int) []byte { return bytes.Repeat(frame(framePing, 0, 0, make([]byte, 8)...), n) }
	f := &frames{}
	if !f.countReceived(pings(frameBurst), now) || f.countReceived(pings(1), now) {
		t.Error("a connection does not begin with frameBurst")
	}
	now = now.Add(time.Second)
	if !f.countReceived(pings(frameRate-1), now) || f.countReceived(pings(1), now) {
		t.Error("a second is not worth frameRate")
	}
	f.countSent(pings(100), now)
	if f.countReceived(nil, now) {
		t.Error("answers to pings earned something")
	}
	f.countSent(frame(frameHeaders, 4, 1, 0x88), now)
	if !f.countReceived(pings(earnedAnswer-1), now) || f.countReceived(pings(1), now) {
		t.Error("an answer is not worth earnedAnswer")
	}
}

// TestFrameScanner: frames are found however they are cut.
func TestFrameScanner(t *testing.T) {
	whole := bytes.Join([][]byte{get(1), frame(frameData, 0, 1), frame(frameData, 0, 1, make([]byte, 300)...), frame(framePing, 0, 0, make([]byte, 8)...)}, nil)
	for size := 1; size <= len(whole); size++ {
		var s frameScanner
		var found []string
		for b := whole; len(b) > 0; b = b[min(size, len(b)):] {
			s.scan(b[:min(size, len(b))], func(kind byte, length int) { found = append(found, fmt.Sprint(kind, ":", length)) })
		}
		if got := strings.Join(found, " "); got != "1:6 0:0 0:300 6:8" {
			t.Fatalf("in pieces of %d: %s", size, got)
		}
	}
}

// TestUnreadAnswersAreBounded: of answers that nobody takes in, those that stood still for longest are cut off for others.
func TestUnreadAnswersAreBounded(t *testing.T) {
	t.Parallel()
	large := make([]byte, maxWaitingAddress/4)
	var failed atomic.Int64
	s := serve(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		if _, err := w.Write(large); err != nil {
			failed.Add(1)
		}
	})
	waiting := func() int {
		s.conns.mu.Lock()
		defer s.conns.mu.Unlock()
		return s.conns.waiting.bytes
	}
	for i := range 4 {
		s.dialHTTP2(noWindow, get(1))
		s.eventually("the answer waits", func() bool { return waiting() == (i+1)*len(large) })
	}
	time.Sleep(stillAfter)
	for range 2 {
		s.answered()
	}
	s.eventually("an answer is cut off", func() bool { return failed.Load() > 0 && waiting() <= maxWaitingAddress })
	if n := s.Connections(); n.CutStill == 0 || n.CutStill > 2 {
		t.Errorf("counts %+v", n)
	}
}

// TestStillest: only answers that stood still for a time are cut off, of the address that has too many, oldest first, and no more than it takes.
func TestStillest(t *testing.T) {
	c := newConnections(Config{}.WithDefaults())
	at := func(address string) *answer {
		return &answer{conn: &conn{owner: c, from: netip.MustParsePrefix(address)}, ended: true}
	}
	now := time.Unix(1, 0)
	first, second, other := at("192.0.2.1/32"), at("192.0.2.1/32"), at("192.0.2.2/32")
	for _, a := range []*answer{first, second, other} {
		c.beginWait(a, maxWaitingAddress/2, now)
	}
	third := at("192.0.2.1/32")
	c.beginWait(third, 1, now.Add(stillAfter/2))
	if first.waits.givenUp {
		t.Error("one that stood still for half the time was cut off")
	}
	c.beginWait(at("192.0.2.1/32"), 1, now.Add(stillAfter))
	if !first.waits.givenUp || second.waits.givenUp || other.waits.givenUp || third.waits.givenUp {
		t.Error("the wrong ones were cut off")
	}
	if c.advanceWait(first, now) {
		t.Error("one that was cut off may go on")
	}
	c.endWait(first)
	if got := c.waiting.from[first.conn.from]; got != maxWaitingAddress/2+2 {
		t.Errorf("%d bytes wait", got)
	}
}

// echoing is a server for frames that make no sense, and what is said behind the preface otherwise.
func echoing(t testing.TB) (s *served, sane [][]byte) {
	s = serve(t, Config{HeaderTimeout: prompt, WriteTimeout: prompt}, func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, r.Method, n)
	})
	return s, [][]byte{
		append(frame(frameSettings, 0, 0), get(1)...),
		bytes.Join([][]byte{frame(frameSettings, 0, 0, noWindow...), get(1), get(3), frame(frameReset, 0, 1, 0, 0, 0, 8), frame(frameWindow, 0, 3, 0, 0, 0, 9)}, nil),
		bytes.Join([][]byte{frame(frameSettings, 0, 0), frame(frameHeaders, 4, 1, postRoot...), frame(frameData, 1, 1, 'a'), frame(frameContinuation, 4, 1)}, nil),
		bytes.Join([][]byte{frame(frameSettings, 0, 0), frame(frameHeaders, 0, 1, getRoot[:2]...), frame(frameContinuation, 5, 1, getRoot[2:]...), frame(framePing, 0, 0, make([]byte, 8)...)}, nil),
		append(frame(frameHeaders, 0x2d, 1, append([]byte{3, 0, 0, 0, 0, 9}, getRoot...)...), frame(frameGoAway, 0, 0, make([]byte, 8)...)...),
	}
}

// disturb sends bytes behind the preface, and holds that another client is answered and that not much is left of it.
func (s *served) disturb(t testing.TB, beside *http.Client, sent []byte) {
	t.Helper()
	c, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(2 * prompt))
	_, _ = c.Write(append([]byte(preface), sent...)) // the server may have closed it
	_ = c.(*net.TCPConn).CloseWrite()
	if got := s.lastFrame(c); got < 0 {
		t.Fatalf("%x: the connection stays open", sent)
	}
	c.Close()
	answer, err := beside.Get("http://" + s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); string(text) != "GET0" {
		t.Fatalf("%x: another client got %q, %v", sent, text, err)
	}
	for end := time.Now().Add(prompt); s.InFlight()+s.Connections().Open > 500; time.Sleep(100 * time.Microsecond) { // they end a second after GOAWAY
		if time.Now().After(end) {
			t.Fatalf("%x: %d requests, %+v", sent, s.InFlight(), s.Connections())
		}
	}
}

// lastFrame reads up to GOAWAY or the end, and returns the type of the last frame; -1 if neither comes.
func (s *served) lastFrame(c net.Conn) int {
	last := 0
	for r := bufio.NewReader(c); last != frameGoAway; {
		var header [frameHeaderBytes]byte
		_, err := io.ReadFull(r, header[:])
		if err == nil {
			last = int(header[3])
			_, err = r.Discard(int(binary.BigEndian.Uint32(header[:4]) >> 8))
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return -1
		}
		if err != nil {
			break
		}
	}
	return last
}

// FuzzHTTP2 sends bytes behind the preface.
func FuzzHTTP2(f *testing.F) {
	s, sane := echoing(f)
	for _, b := range sane {
		f.Add(b)
	}
	beside := &http.Client{Transport: &http.Transport{}}
	f.Cleanup(beside.CloseIdleConnections)
	f.Fuzz(func(t *testing.T, sent []byte) { s.disturb(t, beside, sent) })
}

var frameSeries = flag.Int("frame-series", 300, "series of frames that TestSenselessFrames sends")

// TestSenselessFrames sends frames of all types, flags and streams in any order, some of them broken.
func TestSenselessFrames(t *testing.T) {
	t.Parallel()
	s, sane := echoing(t)
	beside := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(beside.CloseIdleConnections)
	pick := rand.New(rand.NewPCG(1, uint64(*frameSeries)))
	for range *frameSeries {
		sent := slices.Clone(sane[pick.IntN(len(sane))])
		for range pick.IntN(40) {
			payload := make([]byte, pick.IntN(20))
			for i := range payload {
				payload[i] = byte(pick.Uint32() >> pick.IntN(32))
			}
			if pick.IntN(2) == 0 {
				payload = [][]byte{getRoot, postRoot, noWindow, nil}[pick.IntN(4)]
			}
			sent = append(sent, frame(byte(pick.IntN(11)), byte(pick.Uint32()>>(24+pick.IntN(8))), uint32(pick.IntN(12)), payload...)...)
		}
		if pick.IntN(4) == 0 {
			sent[pick.IntN(len(sent))] ^= byte(1 << pick.IntN(8))
		}
		s.disturb(t, beside, sent)
	}
	s.eventually("all has ended", func() bool { return s.InFlight() == 0 && s.Connections().Open <= 1 })
	runtime.GC()
	var now runtime.MemStats
	if runtime.ReadMemStats(&now); now.HeapAlloc > 128<<20 {
		t.Errorf("%d bytes are left", now.HeapAlloc)
	}
}
