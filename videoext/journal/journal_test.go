package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/streams"
)

// book writes results into a journal as a stream does, and goes on where a journal says.
type book struct {
	*testing.T
	*Journal
	dir string
	at  Place
}

func open(t *testing.T, dir string) *book {
	t.Helper()
	j, at, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(j.Close)
	return &book{t, j, dir, at}
}

// timeOf is a segment's time, which is no whole number of milliseconds.
func timeOf(n method.Segment) time.Duration { return (time.Duration(n)*time.Second + 6) / 12 }

// segment adds the results of the next segment, of so many frames, before its final ones as often as told.
func (b *book) segment(of, before int) error {
	for i := range before + 1 {
		lines := make([][]byte, of)
		for frame := range lines {
			b.at.Number++
			r := streams.Result{Number: b.at.Number, Segment: b.at.Next, Frame: frame, Of: of, Final: i == before, Time: timeOf(b.at.Next)}
			var err error
			if lines[frame], err = Line("s", nil, &r, func(int) string { return "" }); err != nil {
				b.Fatal(err)
			}
		}
		if err := b.Add(lines); err != nil {
			b.at.Number -= uint64(of)
			return err
		}
	}
	b.at.Next++
	return nil
}

func (b *book) mustSegment(of, before int) {
	b.Helper()
	if err := b.segment(of, before); err != nil {
		b.Fatal(err)
	}
}

// check holds what is kept to its numbers, and to what another process finds.
func (b *book) check() *book {
	b.Helper()
	lines, first, _, _ := b.After(0)
	for i, line := range lines {
		var r Result
		if err := json.Unmarshal(line, &r); err != nil || r.Number != first+uint64(i) {
			b.Fatalf("line %d is %s, its number is to be %d", i, line, first+uint64(i))
		}
	}
	if first+uint64(len(lines)) != b.at.Number+1 || b.Newest() != b.at.Number {
		b.Fatalf("%d results from %d on, the last is %d and is said to be %d", len(lines), first, b.at.Number, b.Newest())
	}
	again := open(b.T, b.dir)
	if again.at.Number != b.at.Number || again.at.Next != b.at.Next || b.at.Next > 0 && again.at.Time != timeOf(b.at.Next-1) {
		b.Fatalf("another process goes on at %+v, not %+v", again.at, b.at)
	}
	same, _, _, _ := again.After(0)
	if n := min(len(same), len(lines)); !bytes.Equal(bytes.Join(same[len(same)-n:], nil), bytes.Join(lines[len(lines)-n:], nil)) {
		b.Fatal("another process has other results")
	}
	return again
}

// TestJournalTurns: the last results are kept over many more, over restarts too.
func TestJournalTurns(t *testing.T) {
	b := open(t, t.TempDir())
	for n := range 3 * Kept / 10 {
		b.mustSegment(5, n%2)
		if n%700 == 0 {
			b = b.check()
		}
	}
	lines, _, _, _ := b.check().After(0)
	if len(lines) < Kept {
		t.Errorf("%d results are kept, want %d", len(lines), Kept)
	}
	if lines, first, _, _ := b.After(b.at.Number - 7); len(lines) != 7 || first != b.at.Number-6 {
		t.Errorf("behind the last but 7 there are %d from %d", len(lines), first)
	}
}

// TestLargeResultsAreKeptInFewer: what is kept has a bound in bytes too, in memory and in files, over restarts.
func TestLargeResultsAreKeptInFewer(t *testing.T) {
	b := open(t, t.TempDir())
	large := bytes.Repeat([]byte("x"), 1<<20)
	for range 100 {
		b.at.Number++
		line := fmt.Appendf(nil, `{"number":%d,"segment":%d,"of":1,"final":true,"time":%v,"dropped":"%s"}`, b.at.Number, b.at.Next, timeOf(b.at.Next).Seconds(), large)
		if err := b.Add([][]byte{line}); err != nil {
			t.Fatal(err)
		}
		b.at.Next++
	}
	b = b.check()
	if lines, _, _, _ := b.After(0); len(lines) < KeptBytes>>20-1 || len(lines) > 2*KeptBytes>>20 {
		t.Errorf("%d results of a mebibyte are kept", len(lines))
	}
	files := int64(0)
	for _, name := range []string{newerFile, olderFile} {
		info, err := os.Stat(filepath.Join(b.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		files += info.Size()
	}
	if files > 2*(KeptBytes+2<<20) {
		t.Errorf("the files have %d bytes", files)
	}
}

// TestHarm: whatever a file suffers, what is kept has consecutive numbers, the stream goes on behind what was given of the part that is whole, and
// results that come then are there for the next process.
func TestHarm(t *testing.T) {
	for name, harm := range map[string]func(text []byte, at int) []byte{
		"cut":        func(text []byte, at int) []byte { return text[:at] },
		"garbage":    func(text []byte, at int) []byte { return append(text[:at], 0, 0xff, '{', '\n', 7) },
		"zeros":      func(text []byte, at int) []byte { return append(text[:at], make([]byte, 5000)...) },
		"a bad byte": func(text []byte, at int) []byte { text[at] ^= 0x11; return text },
		"a line more": func(text []byte, at int) []byte {
			at += bytes.IndexByte(text[at:], '\n') + 1
			return append(text[:at:at], append([]byte("not ours\n"), text[at:]...)...)
		},
		"twice": func(text []byte, at int) []byte { return append(text, text[at:]...) },
	} {
		for seed := range uint64(30) {
			random := rand.New(rand.NewPCG(seed, 1))
			b := open(t, t.TempDir())
			for range 12 {
				b.mustSegment(1+random.IntN(4), random.IntN(2))
			}
			file := filepath.Join(b.dir, newerFile)
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			at := random.IntN(len(text))
			if err := os.WriteFile(file, harm(text, at), 0o600); err != nil {
				t.Fatal(err)
			}
			was := b.at
			b = open(t, b.dir)
			if b.at.Number > was.Number || b.at.Next > was.Next {
				t.Fatalf("%s, seed %d: %+v became %+v", name, seed, was, b.at)
			}
			if (name == "a bad byte" && at < len(text)*2/3 || name == "a line more" || name == "twice") && (b.at.Number != was.Number || b.at.Next != was.Next) {
				t.Fatalf("%s, seed %d: the end is whole, and %+v became %+v", name, seed, was, b.at)
			}
			b.check()
			for range 3 {
				b.mustSegment(3, 0)
			}
			b.check()
		}
	}
}

// TestFullDisk: what cannot be written was not given, and can be tried again.
func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	b := open(t, t.TempDir())
	b.mustSegment(2, 0)
	file := b.file
	for range 3 {
		b.file = full
		if err := b.segment(3, 0); err == nil || !b.torn {
			t.Fatalf("a full disk: %v", err)
		}
		b.file = file
		if _, err := fmt.Fprintf(file, `{"number":3,"seg`); err != nil { // as much as there was room for
			t.Fatal(err)
		}
		b.check()
		b.mustSegment(3, 1)
		b.check()
	}
}

// TestSmallDisk: the same of a real file system without room.
func TestSmallDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=16k"); err != nil {
		t.Skip(err)
	}
	defer func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	b := open(t, dir)
	var err error
	for err == nil {
		err = b.segment(2, 0)
	}
	if !errors.Is(err, syscall.ENOSPC) || b.at.Number < 20 {
		t.Fatalf("after %d results: %v", b.at.Number, err)
	}
	b.check()
	if err := syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT, "size=64k"); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		b.mustSegment(2, 0)
	}
	b.check()
	b.Close()
}

// FuzzReplay: any file is read, and what is kept of it has consecutive numbers.
func FuzzReplay(f *testing.F) {
	f.Add([]byte(`{"number":1,"segment":0,"frame":0,"of":1,"final":true}`+"\n"), uint64(0))
	f.Add([]byte(`{"number":4,"of":2}`+"\n"+`{"number":5,"frame":1,"of":2,"final":true}`+"\n"), uint64(3))
	f.Fuzz(func(t *testing.T, text []byte, last uint64) {
		at := Place{Number: last, Next: method.Segment(7), Time: -1}
		whole, lines := at.replayLines(text)
		if whole > len(text) || at.Number < last || len(lines) == 0 && at.Number != last {
			t.Fatalf("%d of %d bytes, %d lines, from %d to %d", whole, len(text), len(lines), last, at.Number)
		}
		for i, line := range lines {
			var r Result
			if err := json.Unmarshal(line, &r); err != nil || r.Number != at.Number-uint64(len(lines)-1-i) {
				t.Fatalf("line %d is %q, the last is %d", i, line, at.Number)
			}
		}
	})
}

// TestLineOfMask: of a mask a line has the shares of the classes that are looked for, or of all.
func TestLineOfMask(t *testing.T) {
	r := streams.Result{Findings: videoext.Findings{Mask: &videoext.Mask{Width: 4, Height: 1, Class: []uint8{0, 2, 2, 7}}}}
	for _, c := range []struct {
		classes []int
		want    string
	}{
		{nil, `"mask":[{"class":0,"label":"c","share":0.25},{"class":2,"label":"c","share":0.5},{"class":7,"label":"c","share":0.25}]`},
		{[]int{2, 3}, `"mask":[{"class":2,"label":"c","share":0.5}]`},
	} {
		if text, err := Line("s", c.classes, &r, func(int) string { return "c" }); err != nil || !strings.Contains(string(text), c.want) {
			t.Errorf("of %v: %s, %v", c.classes, text, err)
		}
	}
}
