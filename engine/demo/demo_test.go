package demo

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

func TestExtract(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "cache", "prefillonly")
	dir, err := Extract(parent)
	if err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		var total int64
		for _, name := range []string{"config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"} {
			got, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			want, err := fs.ReadFile(FS(), name)
			if err != nil || string(got) != string(want) {
				t.Errorf("%s differs from the embedded file (%v)", name, err)
			}
			total += int64(len(got))
		}
		if total > 12<<20 {
			t.Errorf("the files have %d bytes, over 12 MiB", total)
		}
		if entries, err := os.ReadDir(parent); err != nil || len(entries) != 1 {
			t.Errorf("beside the model there are %v (%v)", entries, err)
		}
	}
	check()
	before, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Extract(parent); err != nil || again != dir {
		t.Errorf("a second time: %q, %v", again, err)
	}
	if after, err := os.Stat(dir); err != nil || !os.SameFile(before, after) {
		t.Errorf("a complete directory was written again (%v)", err)
	}
	if err := os.Truncate(filepath.Join(dir, "model.safetensors"), 100); err != nil {
		t.Fatal(err)
	}
	if _, err := Extract(parent); err != nil {
		t.Fatal(err)
	}
	check()
}

func TestExtractAtTheSameTime(t *testing.T) {
	parent := t.TempDir()
	var wg sync.WaitGroup
	for range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if dir, err := Extract(parent); err != nil || !isComplete(dir) {
				t.Errorf("%q, %v", dir, err)
			}
		}()
	}
	wg.Wait()
}

func TestExtractWhereNothingCanBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if dir, err := Extract(file); err == nil {
		t.Errorf("extracted to %q below a file", dir)
	}
}
