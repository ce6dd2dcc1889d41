package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestVideoState: a directory of streams without room, and then a journal whose end is garbage after its process was killed, stop a stream with a
// reason or cost nothing; its frames have one result each.
func TestVideoState(t *testing.T) {
	state := t.TempDir()
	if err := syscall.Mount("none", state, "tmpfs", 0, "size=256k"); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(state, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	p := serveEyes(t, eyeEntry("eye", eyeFile(t, 1)), "--video-state", state)
	p.mustDeclare(`{"name":"clip","source":"drawn.mp4","loop":true}`)
	p.untilStream("clip", "is seen", func(s streamStatus) bool { return s.Number > 3 })
	filler, err := os.Create(filepath.Join(state, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = filler.Write(make([]byte, 4096))
	}
	s := p.untilStream("clip", "waits for room", func(s streamStatus) bool {
		return s.State == "waiting" && strings.Contains(s.Reason, "no space left on device")
	})
	if err := errors.Join(filler.Close(), os.Remove(filler.Name())); err != nil {
		t.Fatal(err)
	}
	goOn := func(when string) {
		t.Helper()
		s = p.untilStream("clip", "goes on "+when, func(now streamStatus) bool { return now.State == "running" && now.Number > s.Number+3 })
	}
	goOn("when there is room")
	for _, harm := range []string{"{\"number\":7,", "\x00\x00\x00\x00", "no JSON\n{}\n[]\n"} {
		p.halt("video") // so that it writes no more
		journal, err := os.OpenFile(filepath.Join(state, "clip", "results.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = journal.WriteString(harm)
		if err = errors.Join(err, journal.Close()); err != nil {
			t.Fatal(err)
		}
		p.strike("video", syscall.SIGKILL)
		goOn("behind garbage")
	}
	for i, r := range p.watch("clip", int(s.Number)) {
		if r.Segment != i || !r.Final || r.Dropped != "" {
			t.Errorf("result %d is %+v", i, r)
		}
	}
}
