package main

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	zmq "github.com/pebbe/zmq4"
)

// TestKVEventsAreServed asks a server for all it has published after one prompt.
func TestKVEventsAreServed(t *testing.T) {
	dir := "ipc://" + t.TempDir()
	p := serve(t, nil, "--device", "null", "--kv-events-config",
		fmt.Sprintf(`{"enable_kv_cache_events":true,"endpoint":%q,"replay_endpoint":%q,"topic":"kv@pod@demo"}`, dir+"/e", dir+"/r"))
	if status, body, err := p.complete(http.DefaultClient, strings.Repeat("all work and no play ", 40), 1); err != nil || status != http.StatusOK {
		t.Fatal(status, body, err)
	}
	zctx, err := zmq.NewContext()
	if err != nil {
		t.Fatal(err)
	}
	defer zctx.Term()
	s, err := zctx.NewSocket(zmq.DEALER)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, err := range []error{s.SetLinger(0), s.SetRcvtimeo(10 * time.Second), s.Connect(dir + "/r")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.SendMessage("", make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	var published []byte
	for {
		frames, err := s.RecvMessageBytes(0)
		if err != nil || len(frames) != 4 {
			t.Fatalf("replayed %q, %v", frames, err)
		}
		if len(frames[1]) == 0 {
			break // the end has no topic
		}
		published = append(published, frames[3]...)
	}
	cleared, stored := bytes.Index(published, []byte("AllBlocksCleared")), bytes.Index(published, []byte("BlockStored"))
	if cleared < 0 || stored < cleared {
		t.Errorf("published %q, want a clear start and then a prompt's blocks", published)
	}
}
