package mapped

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mappedFile is a file of some pages, in use.
func mappedFile(t *testing.T) (*File, []byte) {
	t.Helper()
	content := bytes.Repeat([]byte("0123456789abcdef"), 1024)
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	opened, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	f, err := MapFile(path, opened)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Use(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return &f, content
}

func TestCutShortIsAnError(t *testing.T) {
	f, content := mappedFile(t)
	dst := make([]byte, 100)
	if err := f.ReadPart(dst, f.Data()[8192:8292]); err != nil || !bytes.Equal(dst, content[8192:8292]) {
		t.Fatalf("%v: %q", err, dst)
	}
	var last byte
	touch := func() error { last = f.Data()[len(content)-1]; return nil }
	if err := Guard(touch); err != nil || last != 'f' {
		t.Fatalf("%v: %q", err, last)
	}
	if err := os.Truncate(f.Path, 4096); err != nil {
		t.Fatal(err)
	}
	if err := Guard(touch); err == nil || !strings.Contains(err.Error(), "cut short") {
		t.Errorf("touched: %v", err)
	}
	if err := f.ReadPart(dst, f.Data()[8192:8292]); err == nil || !strings.Contains(err.Error(), "unexpected EOF") {
		t.Errorf("read: %v", err)
	}
	if err := f.Unchanged(); err == nil || !strings.Contains(err.Error(), "had 16384 bytes and has 4096") {
		t.Errorf("unchanged: %v", err)
	}
}

func TestGuardLetsPanicsThrough(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a nil pointer was taken for a file's fault")
		}
	}()
	var p *File
	_ = Guard(func() error { p.Path = "x"; return nil })
}

func TestMemoryOfOthersIsCopied(t *testing.T) {
	f, _ := mappedFile(t)
	other, dst := []byte("other"), make([]byte, 5)
	if err := f.ReadPart(dst, other); err != nil || string(dst) != "other" || f.Holds(other) || !f.Holds(f.Data()[5:7]) {
		t.Errorf("%v: %q", err, dst)
	}
}
