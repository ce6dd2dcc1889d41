package mq

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	zmq "github.com/pebbe/zmq4"
)

// outsider is a socket of a program that is not ours.
func outsider(t *testing.T, kind zmq.Type, endpoint string) *zmq.Socket {
	t.Helper()
	zctx, err := zmq.NewContext()
	if err != nil {
		t.Fatal(err)
	}
	s, err := zctx.NewSocket(kind)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Close()
		_ = zctx.Term()
	})
	if kind == zmq.SUB {
		err = s.SetSubscribe("kv@")
	}
	if err = firstError(err, s.SetLinger(0), s.SetRcvtimeo(10*time.Second), s.Connect(endpoint)); err != nil {
		t.Fatal(err)
	}
	return s
}

func newTestPublisher(t *testing.T, steps int) (p *Publisher, endpoint, replay string) {
	t.Helper()
	dir := t.TempDir()
	endpoint, replay = "ipc://"+filepath.Join(dir, "e"), "ipc://"+filepath.Join(dir, "r")
	p, err := NewPublisher(PublisherOptions{Endpoint: endpoint, ReplayEndpoint: replay, Topic: "kv@pod@{model}", BufferSteps: steps, HWM: 1000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p, endpoint, replay
}

// Events can come before the call that opens a socket returns; the race detector sees a late assignment.
func TestPublisherIsInPlaceBeforeItsFirstEvent(t *testing.T) {
	for range 50 {
		dir := t.TempDir()
		o := PublisherOptions{Endpoint: "ipc://" + filepath.Join(dir, "e"), ReplayEndpoint: "ipc://" + filepath.Join(dir, "r"), BufferSteps: 1, HWM: 1}
		p, err := NewPublisher(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// batchOf is what the tests publish under a number.
func batchOf(n int) []byte { return fmt.Appendf(nil, "batch %d", n) }

func mustFrames(t *testing.T, s *zmq.Socket) [][]byte {
	t.Helper()
	frames, err := s.RecvMessageBytes(0)
	if err != nil {
		t.Fatal(err)
	}
	return frames
}

// askReplay asks for the batches from a number on and returns what comes before the end.
func askReplay(t *testing.T, s *zmq.Socket, start uint64) (batches [][][]byte) {
	t.Helper()
	if _, err := s.SendMessage("", binary.BigEndian.AppendUint64(nil, start)); err != nil {
		t.Fatal(err)
	}
	for {
		f := mustFrames(t, s)
		if len(f) != 4 || len(f[0]) != 0 {
			t.Fatalf("replayed %q, want an empty frame, topic, number and batch", f)
		}
		if string(f[2]) == "\xff\xff\xff\xff\xff\xff\xff\xff" && len(f[1])+len(f[3]) == 0 {
			return batches
		}
		batches = append(batches, f[1:])
	}
}

// TestReplayFillsTheGap has a subscriber come late, as all do, and ask for what it has missed.
func TestReplayFillsTheGap(t *testing.T) {
	p, endpoint, replay := newTestPublisher(t, 10_000)
	for n := range 3 {
		p.Publish("a/b", batchOf(n))
	}
	sub := outsider(t, zmq.SUB, endpoint)
	if err := sub.SetRcvtimeo(5 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	next := 3
	var first [][]byte
	for deadline := time.Now().Add(10 * time.Second); first == nil && time.Now().Before(deadline); next++ {
		p.Publish("a/b", batchOf(next))
		if frames, err := sub.RecvMessageBytes(0); err == nil {
			first = frames
		}
	}
	if len(first) != 3 || string(first[0]) != "kv@pod@a/b" || len(first[1]) != 8 {
		t.Fatalf("received %q, want topic, number and batch", first)
	}
	seen := int(binary.BigEndian.Uint64(first[1]))
	if seen < 3 || !bytes.Equal(first[2], batchOf(seen)) {
		t.Fatalf("batch %d is %q", seen, first[2])
	}
	missed := askReplay(t, outsider(t, zmq.DEALER, replay), 0)
	if len(missed) != next {
		t.Fatalf("%d batches replayed, want all %d", len(missed), next)
	}
	for n, f := range missed {
		if string(f[0]) != "kv@pod@a/b" || binary.BigEndian.Uint64(f[1]) != uint64(n) || !bytes.Equal(f[2], batchOf(n)) {
			t.Fatalf("batch %d is replayed as %q", n, f)
		}
	}
	if err := sub.SetRcvtimeo(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	for n := next; n < next+500; n++ {
		p.Publish("a/b", batchOf(n))
	}
	for n := seen + 1; n < next+500; n++ {
		if f := mustFrames(t, sub); binary.BigEndian.Uint64(f[1]) != uint64(n) || !bytes.Equal(f[2], batchOf(n)) {
			t.Fatalf("after batch %d comes %q", n-1, f)
		}
	}
}

func TestReplayIsBounded(t *testing.T) {
	p, _, replay := newTestPublisher(t, 3)
	s := outsider(t, zmq.DEALER, replay)
	if early := askReplay(t, s, 0); len(early) != 0 {
		t.Errorf("before the first batch %q are replayed", early)
	}
	for n := range 5 {
		p.Publish("a/b", batchOf(n))
	}
	for _, bad := range [][]any{{"only"}, {"", "short"}, {"", "12345678", "more"}} {
		if _, err := s.SendMessage(bad...); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		start uint64
		want  string
	}{{0, "batch 2, batch 3, batch 4"}, {3, "batch 3, batch 4"}, {5, ""}, {endOfReplay, ""}} {
		var got []string
		for _, f := range askReplay(t, s, tt.start) {
			got = append(got, string(f[2]))
		}
		if strings.Join(got, ", ") != tt.want {
			t.Errorf("from %d on %q are replayed, want %q", tt.start, got, tt.want)
		}
	}
}

func TestPublisherEndpoints(t *testing.T) {
	for _, tt := range []struct{ endpoint, replay, want string }{
		{"udp://*:5557", "", "neither ipc"},
		{"tcp://*", "", "missing port"},
		{"ipc:///" + strings.Repeat("x", 200), "", "at most 107"},
		{"tcp://*:0", "tcp://256.0.0.1:1", "publish on tcp://256.0.0.1:1"},
	} {
		p, err := NewPublisher(PublisherOptions{Endpoint: tt.endpoint, ReplayEndpoint: tt.replay, BufferSteps: 1, HWM: 1})
		if err == nil {
			_ = p.Close()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s, %s: %v, want %q", tt.endpoint, tt.replay, err, tt.want)
		}
	}
}

// TestPublisherListensWhereItIsTold: on a loopback address, and on no other one of this machine.
func TestPublisherListensWhereItIsTold(t *testing.T) {
	for endpoint, wide := range map[string]bool{"tcp://127.0.0.1:%d": false, "tcp://*:%d": true} {
		free, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := free.Addr().(*net.TCPAddr).Port
		free.Close()
		p, err := NewPublisher(PublisherOptions{Endpoint: fmt.Sprintf(endpoint, port), Listen: true, HWM: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for host, want := range map[string]bool{"127.0.0.1": true, "127.0.0.2": wide} {
			c, err := net.Dial("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
			if err == nil {
				c.Close()
			}
			if (err == nil) != want {
				t.Errorf("%s is reached at %s: %v, want %v", endpoint, host, err == nil, want)
			}
		}
		p.Close()
	}
}

// TestPublisherConnects: without a * the endpoint is a subscriber's that listens.
func TestPublisherConnects(t *testing.T) {
	zctx, err := zmq.NewContext()
	if err != nil {
		t.Fatal(err)
	}
	defer zctx.Term()
	sub, err := zctx.NewSocket(zmq.SUB)
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	if err := firstError(sub.SetLinger(0), sub.SetSubscribe(""), sub.SetRcvtimeo(5*time.Millisecond), sub.Bind("tcp://127.0.0.1:*")); err != nil {
		t.Fatal(err)
	}
	endpoint, err := sub.GetLastEndpoint()
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPublisher(PublisherOptions{Endpoint: endpoint, HWM: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		p.Publish("a/b", []byte("hello"))
		if f, err := sub.RecvMessageBytes(0); err == nil {
			if len(f) != 3 || len(f[0]) != 0 || string(f[2]) != "hello" {
				t.Errorf("received %q", f)
			}
			return
		}
	}
	t.Error("nothing is received")
}

func BenchmarkPublish(b *testing.B) {
	p, err := NewPublisher(PublisherOptions{Endpoint: "ipc://" + filepath.Join(b.TempDir(), "e"), ReplayEndpoint: "ipc://" + filepath.Join(b.TempDir(), "r"), BufferSteps: 10_000, HWM: 1000})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	batch := make([]byte, 500)
	for b.Loop() {
		p.Publish("a/b", batch)
	}
}
