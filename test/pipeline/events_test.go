package pipeline

import (
	"bytes"
	"context"
	"encoding/binary"
	"testing"
	"time"

	zmq "github.com/pebbe/zmq4"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/mq"
	"github.com/prefillonly/prefillonly/scheduler"
)

// follower counts the blocks that published batches leave resident, one batch after the other.
type follower struct {
	t       testing.TB
	next    uint64
	blocks  map[uint64]bool
	removed int
}

// take follows a batch if it is the next one, passes over those seen before, and says whether there
// is a gap before it.
func (f *follower) take(number uint64, batch []byte) (gap bool) {
	switch {
	case number > f.next:
		return true
	case number < f.next:
		return false
	}
	f.next++
	top, err := msgpack.NewDecoder(bytes.NewReader(batch)).DecodeSlice()
	if err != nil {
		f.t.Fatal(err)
	}
	for _, e := range top[1].([]any) {
		fields := e.([]any)
		switch fields[0] {
		case "BlockStored":
			if parent := fields[2]; parent != nil && !f.blocks[parent.(uint64)] {
				f.t.Fatalf("batch %d stores below a block that is not there", number)
			}
			for _, h := range fields[1].([]any) {
				f.blocks[h.(uint64)] = true
			}
		case "BlockRemoved":
			for _, h := range fields[1].([]any) {
				if !f.blocks[h.(uint64)] {
					f.t.Fatalf("batch %d removes a block that is not there", number)
				}
				delete(f.blocks, h.(uint64))
				f.removed++
			}
		case "AllBlocksCleared":
			clear(f.blocks)
		}
	}
	return false
}

func connect(t *testing.T, kind zmq.Type, endpoint string) *zmq.Socket {
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
		err = s.SetSubscribe("")
	}
	for _, e := range []error{err, s.SetLinger(0), s.SetRcvtimeo(10 * time.Second), s.Connect(endpoint)} {
		if e != nil {
			t.Fatal(e)
		}
	}
	return s
}

// replay asks for all batches from the follower's next one on.
func (f *follower) replay(s *zmq.Socket) {
	if _, err := s.SendMessage("", binary.BigEndian.AppendUint64(nil, f.next)); err != nil {
		f.t.Fatal(err)
	}
	for {
		frames, err := s.RecvMessageBytes(0)
		if err != nil {
			f.t.Fatal(err)
		}
		number := binary.BigEndian.Uint64(frames[2])
		if number == 1<<64-1 {
			return
		}
		if f.take(number, frames[3]) {
			f.t.Fatalf("the replay skips from batch %d to %d", f.next, number)
		}
	}
}

// TestCacheEvents subscribes in the middle of the work, asks for what was missed, and follows a cache
// that overflows.
func TestCacheEvents(t *testing.T) {
	dir := "ipc://" + t.TempDir()
	p := &pipeline{t: t, runner: nullRunner{}, endpoint: dir + "/s"}
	events, err := mq.NewPublisher(mq.PublisherOptions{
		Endpoint: dir + "/e", ReplayEndpoint: dir + "/r", Topic: "kv@pod@demo", BufferSteps: 1000, HWM: 1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	p.startScheduler(func(s *scheduler.Server) { s.PublishTo(events) })
	defer func() { p.scheduler() }()
	p.startExecutor()
	defer func() { p.executor() }()
	web, err := mq.Dial(p.endpoint, mq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer web.Close()
	_ = web.Send(&wire.Hello{Role: wire.RoleFrontend, Name: "web", Epoch: 1}) // or once the connection stands
	if _, err := web.Recv(t.Context()); err != nil {
		t.Fatal(err)
	}

	const blocks, cache, early, late = 200, 1024, 8, 4
	for n := range early {
		ask(t, web, n, blocks*16+1)
	}
	sub, replay := connect(t, zmq.SUB, dir+"/e"), connect(t, zmq.DEALER, dir+"/r")
	for n, heard := early, early+1000; n < heard+late && n < early+1000; n++ {
		ask(t, web, n, blocks*16+1)
		if state, err := sub.GetEvents(); err == nil && state&zmq.POLLIN != 0 {
			heard = min(heard, n)
		}
	}
	f := &follower{t: t, blocks: map[uint64]bool{}}
	f.replay(replay)
	if f.removed < (early+late)*blocks-cache || len(f.blocks) > cache || len(f.blocks) < cache-blocks {
		t.Errorf("%d blocks are left of a cache of %d, %d were removed", len(f.blocks), cache, f.removed)
	}
	last := f.next
	live := &follower{t: t, blocks: map[uint64]bool{}}
	for live.next < last {
		frames, err := sub.RecvMessageBytes(0)
		if err != nil {
			t.Fatal(err)
		}
		if live.take(binary.BigEndian.Uint64(frames[1]), frames[2]) {
			live.replay(replay)
		}
	}
	for f.next < live.next { // a gap that live has filled since reached further
		f.replay(replay)
	}
	if len(live.blocks) != len(f.blocks) || live.removed != f.removed {
		t.Errorf("the subscriber knows %d blocks and saw %d removed, the replay %d and %d", len(live.blocks), live.removed, len(f.blocks), f.removed)
	}
}

// ask submits a prompt of its own and waits for its answer.
func ask(t *testing.T, web *mq.Peer, n, length int) {
	t.Helper()
	prompt := make([]engine.TokenID, length)
	for i := range prompt {
		prompt[i] = engine.TokenID((n*31 + i) % 256)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	job := engine.JobID(n + 1)
	if err := web.Send(&wire.Submit{Job: engine.Job{ID: job, Model: "demo", Work: &engine.Tokens{IDs: prompt, Max: 1}}}); err != nil {
		t.Fatal(err)
	}
	for {
		m, err := web.Recv(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if r, ok := m.(*wire.Result); ok && r.Job == job {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			return
		}
	}
}
