package generations

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRevertDrifted: the original of the model that has drifted is current then, and why; what was found of a generation that is current no more changes nothing.
func TestRevertDrifted(t *testing.T) {
	m := newMerge(t, t.TempDir())
	if dir, err := Current(m.dir); err != nil || dir != "" {
		t.Errorf("before it began: %q, %v", dir, err)
	}
	if _, err := m.carry(); err != nil {
		t.Fatal(err)
	}
	was := checkCurrent(t, "merged", m.dir)
	if kept, err := RevertDrifted(m.dir, was.Generation-1, "b", "dark"); err != nil || kept.Generation != was.Generation {
		t.Fatalf("of an earlier generation: %+v, %v", kept, err)
	}
	if _, err := RevertDrifted(m.dir, was.Generation, "c", "dark"); err == nil || !strings.Contains(err.Error(), `no model "c"`) {
		t.Error(err)
	}
	if _, err := RevertDrifted(m.dir, was.Generation, "b", "dark"); err != nil {
		t.Fatal(err)
	}
	now := checkCurrent(t, "reverted", m.dir)
	if now.Generation <= was.Generation || now.Why["b"] != "dark" || now.Models[1].SHA256 != now.Models[1].OriginalSHA256 || now.SharedBytes != 0 {
		t.Errorf("%+v", now)
	}
	dir, err := Current(m.dir)
	if err != nil || dir != filepath.Join(m.dir, generation(now.Generation)) {
		t.Errorf("%q, %v", dir, err)
	}
	if again, err := RevertDrifted(m.dir, now.Generation, "b", "dark"); err != nil || again.Generation != now.Generation {
		t.Errorf("once more: %+v, %v", again, err)
	}
	if done, err := m.carry(); err != nil || done.Refused {
		t.Errorf("carried on: %+v, %v", done, err)
	}
	if s, err := Read(m.dir); err != nil || s.Current.Generation != now.Generation {
		t.Errorf("%v, %+v", err, s)
	}
}

// TestRevertWaitsForNobody: while a merge goes on in the directory it is refused at once, with the process.
func TestRevertWaitsForNobody(t *testing.T) {
	m := newMerge(t, t.TempDir())
	if _, err := m.carry(); err != nil {
		t.Fatal(err)
	}
	d, err := OpenExisting(m.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := RevertDrifted(m.dir, 1, "b", "dark"); err == nil || !strings.Contains(err.Error(), "in use by process") {
		t.Error(err)
	}
}

// TestNoteWatched: how models are watched stands in the directory, beside the merge, which goes on with it there; what is damaged is written anew.
func TestNoteWatched(t *testing.T) {
	m := newMerge(t, t.TempDir())
	if _, err := m.carry(); err != nil {
		t.Fatal(err)
	}
	note := func(model string, samples uint64) {
		if err := NoteWatched(m.dir, model, Watched{Generation: 1, Samples: samples, Score: .9, Target: .95, At: time.Unix(5, 0)}); err != nil {
			t.Fatal(err)
		}
	}
	note("a", 1)
	note("b", 2)
	note("a", 3)
	s, err := Read(m.dir)
	if err != nil || len(s.Watched) != 2 || s.Watched["a"].Samples != 3 || s.Watched["b"].Score != .9 {
		t.Errorf("%v, %+v", err, s.Watched)
	}
	if _, err := m.carry(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(m.dir, watchedName), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	note("b", 4)
	if s, err = Read(m.dir); err != nil || len(s.Watched) != 1 || s.Watched["b"].Samples != 4 {
		t.Errorf("%v, %+v", err, s.Watched)
	}
}

// TestCurrentIsALink: of a directory that was copied without links it is said what to do, and that helps.
func TestCurrentIsALink(t *testing.T) {
	m := newMerge(t, t.TempDir())
	if _, err := m.carry(); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(m.dir, currentName)
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(link, os.DirFS(filepath.Join(m.dir, generation(1)))); err != nil {
		t.Fatal(err)
	}
	_, err := Current(m.dir)
	if want := link + " is a copy, want a symbolic link"; err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "remove it") {
		t.Fatalf("got %v, want %q in it, and what to do", err, want)
	}
	if err := os.RemoveAll(link); err != nil {
		t.Fatal(err)
	}
	d, err := OpenExisting(m.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.RevertTo(1); err != nil {
		t.Fatal(err)
	}
	if dir, err := Current(m.dir); err != nil || dir != filepath.Join(m.dir, generation(1)) {
		t.Errorf("%q, %v", dir, err)
	}
}
