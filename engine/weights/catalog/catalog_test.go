package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
)

// written is a checkpoint and what is in it.
type written struct {
	*weights.Checkpoint
	dir     string
	tensors map[string]kernels.HostTensor
}

// write makes a checkpoint that was last changed a while ago.
func write(t testing.TB, tensors ...kernels.HostTensor) written {
	t.Helper()
	w := written{dir: t.TempDir(), tensors: map[string]kernels.HostTensor{}}
	for _, tensor := range tensors {
		w.tensors[tensor.Name] = tensor
	}
	file := filepath.Join(w.dir, "model.safetensors")
	if err := weights.WriteFile(file, tensors); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(file, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	return w.open(t)
}

func (w written) open(t testing.TB) written {
	t.Helper()
	var err error
	if w.Checkpoint, err = weights.Open(w.dir); err != nil {
		t.Fatal(err)
	}
	return w
}

func tensorOf(name string, typ kernels.DType, rows, cols int, data []byte) kernels.HostTensor {
	return kernels.HostTensor{Name: name, Type: typ, Rows: rows, Cols: cols, Data: data}
}

// randomTensors are some of few names, shapes and contents, so that many are equal, or equal in part.
func randomTensors(random *rand.Rand) []kernels.HostTensor {
	var list []kernels.HostTensor
	for i := range 1 + random.IntN(8) {
		typ := []kernels.DType{kernels.BF16, kernels.F16, kernels.F32}[random.IntN(3)]
		rows := []int{1, 3, 100}[random.IntN(3)]
		cols := []int{20, 60}[random.IntN(2)]
		data := bytes.Repeat([]byte{byte(random.IntN(2))}, rows*cols*int(typ.Size()))
		if random.IntN(3) == 0 { // like another one at its beginning
			data[len(data)-1] ^= 2
		}
		list = append(list, tensorOf(fmt.Sprint("t", i), typ, rows, cols, data))
	}
	return list
}

// TestCatalogFindsWhatIsEqual: of any two checkpoints that a catalog has, tensors have one ID only if their
// types, shapes and bytes are equal, and always then, unless there are several such in one of the two; whatever was
// added, removed and added again; with sidecars and without.
func TestCatalogFindsWhatIsEqual(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	cache := t.TempDir()
	shared := 0
	for round := range 60 {
		c := New([]string{"", cache}[round%2])
		var all []written
		for range 6 {
			all = append(all, write(t, randomTensors(random)...))
		}
		here := map[int]bool{}
		for range 25 {
			i := random.IntN(len(all))
			if here[i] {
				c.Remove(all[i].Checkpoint)
				all[i] = all[i].open(t)
				delete(here, i)
			} else if err := c.Add(t.Context(), all[i].Checkpoint, nil); err != nil {
				t.Fatal(err)
			} else {
				here[i] = true
			}
			for i := range here {
				for j := range here {
					if i != j {
						shared += compare(t, all[i], all[j])
					}
				}
			}
		}
		for i := range here {
			c.Remove(all[i].Checkpoint)
		}
		if len(c.groups)+len(c.members)+len(c.sidecars) != 0 {
			t.Fatalf("an empty catalog has %d groups, %d members, %d sidecars", len(c.groups), len(c.members), len(c.sidecars))
		}
	}
	if shared == 0 {
		t.Error("nothing was equal")
	}
}

// compare returns how many pairs of tensors have one ID.
func compare(t *testing.T, a, b written) (shared int) {
	t.Helper()
	for _, x := range a.tensors {
		for _, y := range b.tensors {
			equal := same(x, y)
			if got := a.ID(x.Name) == b.ID(y.Name); got != equal && (got || a.count(x)+b.count(x) == 2) {
				t.Fatalf("%s [%d, %d] of %s and %s [%d, %d] of %s are equal: %t, by their IDs %t", x.Type, x.Rows, x.Cols, a.dir, y.Type, y.Rows, y.Cols, b.dir, equal, got)
			} else if got {
				shared++
			}
		}
	}
	return shared
}

func same(x, y kernels.HostTensor) bool {
	return x.Type == y.Type && x.Rows == y.Rows && x.Cols == y.Cols && bytes.Equal(x.Data, y.Data)
}

// count is how many of its tensors are equal to t.
func (w written) count(t kernels.HostTensor) int {
	n := 0
	for _, other := range w.tensors {
		if same(t, other) {
			n++
		}
	}
	return n
}

// hashed adds a checkpoint, and returns how many bytes were to be hashed.
func hashed(t *testing.T, c *Catalog, checkpoint *weights.Checkpoint) int64 {
	t.Helper()
	var last, all int64
	err := c.Add(t.Context(), checkpoint, func(done, total int64) {
		if done <= last || done > total {
			t.Errorf("%d of %d bytes after %d", done, total, last)
		}
		last, all = done, total
	})
	if err != nil {
		t.Fatal(err)
	}
	if last != all {
		t.Errorf("%d of %d bytes were hashed", last, all)
	}
	return all
}

// filled is a tensor of 8,000 bytes of one value but for the last.
func filled(name string, value, last byte) kernels.HostTensor {
	data := bytes.Repeat([]byte{value}, 8000)
	data[len(data)-1] = last
	return tensorOf(name, kernels.BF16, 40, 100, data)
}

// TestCatalogReadsLittle: what has no like is not hashed, what begins otherwise neither, and all else once in
// the lives of many catalogs.
func TestCatalogReadsLittle(t *testing.T) {
	base := write(t, filled("a", 1, 1), filled("b", 2, 2), tensorOf("c", kernels.F32, 1, 3, make([]byte, 12)))
	tuned := write(t, filled("a", 1, 1), filled("b", 3, 3), tensorOf("c", kernels.F32, 1, 3, make([]byte, 12)))
	apart := write(t, filled("a", 4, 4), filled("b", 5, 5))
	cache := filepath.Join(t.TempDir(), "new", "cache")
	for i, want := range []int64{16000, 0} {
		c := New(cache)
		if got := hashed(t, c, base.Checkpoint); got != 0 {
			t.Errorf("%d bytes of the only checkpoint were hashed", got)
		}
		if got := hashed(t, c, apart.Checkpoint); got != 0 {
			t.Errorf("%d bytes of a checkpoint that begins otherwise were hashed", got)
		}
		if got := hashed(t, c, tuned.Checkpoint); got != want {
			t.Errorf("catalog %d: %d bytes were hashed, want %d", i, got, want)
		}
		if base.ID("a") != tuned.ID("a") || base.ID("c") != tuned.ID("c") || base.ID("b") == tuned.ID("b") {
			t.Error("wrong ones are equal")
		}
		if got := hashed(t, c, tuned.Checkpoint); got != 0 {
			t.Error("what is added twice is read twice")
		}
	}
	// The files of one are links to those of the other, as in Hugging Face's cache.
	link := written{dir: t.TempDir()}
	if err := os.Symlink(filepath.Join(base.dir, "model.safetensors"), filepath.Join(link.dir, "model.safetensors")); err != nil {
		t.Fatal(err)
	}
	c := New("")
	hashed(t, c, base.open(t).Checkpoint)
	link = link.open(t)
	if got := hashed(t, c, link.Checkpoint); got != 0 || link.ID("b") != base.ID("b") {
		t.Errorf("%d bytes of the same file were hashed", got)
	}
	if list, _ := os.ReadDir(base.dir); len(list) != 1 {
		t.Errorf("there are %d files in the checkpoint's folder, there was one", len(list))
	}
}

// TestSidecars: one that is not of this file, or no sidecar at all, is ignored and made anew; so are those of
// files that may still be changing.
func TestSidecars(t *testing.T) {
	tuned := filled("a", 1, 9)
	cache := t.TempDir()
	base := write(t, filled("a", 1, 1))
	read := func() int64 {
		base, tuned := base.open(t), write(t, tuned)
		c := New(cache)
		hashed(t, c, base.Checkpoint)
		n := hashed(t, c, tuned.Checkpoint)
		if base.ID("a") == tuned.ID("a") {
			t.Error("different tensors are equal")
		}
		return n - 8000 // what of base was hashed
	}
	file := (&Catalog{dir: cache}).name(newSidecar(base.Files()[0]).Path)
	edit := func(old, new string) func() error {
		return func() error {
			raw, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if !bytes.Contains(raw, []byte(old)) {
				return fmt.Errorf("%s has no %s", raw, old)
			}
			return os.WriteFile(file, bytes.ReplaceAll(raw, []byte(old), []byte(new)), 0o600)
		}
	}
	identity := base.Files()[0]
	for _, step := range []struct {
		what   string
		change func() error
		want   int64
	}{
		{"none", func() error { return nil }, 8000},
		{"good", func() error { return nil }, 0},
		{"of another size", edit(`"size":`, `"size":1`), 8000},
		{"of another time", edit(fmt.Sprint(identity.Modified), fmt.Sprint(identity.Modified+1)), 8000},
		{"of another inode", edit(`"inode":`, `"inode":1`), 8000},
		{"of another path", edit(base.dir, base.dir+"/."), 8000},
		{"of another version", edit(`"version":1`, `"version":2`), 8000},
		{"with no digest", edit(`"a":"`, `"a":"zz`), 8000},
		{"with a short digest", edit(`"a":"`, `"a":"00","b":"`), 8000},
		{"with other tensors", edit(`"a":"`, `"b":"`), 8000},
		{"good again", func() error { return nil }, 0},
		{"cut short", func() error { return os.Truncate(file, 20) }, 8000},
		{"a directory", func() error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o700)) }, 8000},
		{"gone", func() error { return os.Remove(file) }, 8000},
		{"good at last", func() error { return nil }, 0},
		{"of a file that was changed", func() error {
			return os.Chtimes(filepath.Join(base.dir, "model.safetensors"), time.Time{}, time.Now().Add(-time.Minute))
		}, 8000},
		{"of one that was changed just now", func() error {
			return os.Chtimes(filepath.Join(base.dir, "model.safetensors"), time.Time{}, time.Now())
		}, 8000},
		{"of one that was changed just now, again", func() error {
			return os.Chtimes(filepath.Join(base.dir, "model.safetensors"), time.Time{}, time.Now())
		}, 8000},
	} {
		if err := step.change(); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		if got := read(); got != step.want {
			t.Errorf("a sidecar %s: %d bytes were hashed, want %d", step.what, got, step.want)
		}
	}
	if err := os.Chmod(cache, 0o500); err != nil {
		t.Fatal(err)
	}
	read() // a cache that cannot be written is no error
	list, err := os.ReadDir(cache)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		if strings.HasSuffix(f.Name(), ".new") {
			t.Errorf("%s was left", f.Name())
		}
	}
}

// TestAddEnds: with its context, and with a file that is not what it was; nothing is added then.
func TestAddEnds(t *testing.T) {
	base, tuned := write(t, filled("a", 1, 1), filled("b", 2, 1)), write(t, filled("a", 1, 1), filled("b", 2, 2))
	c := New("")
	hashed(t, c, base.Checkpoint)
	ctx, cancel := context.WithCancel(t.Context())
	err := c.Add(ctx, tuned.Checkpoint, func(int64, int64) { cancel() })
	if !errors.Is(err, context.Canceled) || c.members[tuned.Checkpoint] != nil || base.ID("a") == tuned.ID("a") {
		t.Errorf("Add with a context that ends: %v", err)
	}
	file := filepath.Join(tuned.dir, "model.safetensors")
	if err := os.Chtimes(file, time.Time{}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := c.Add(t.Context(), tuned.Checkpoint, nil); err == nil || !strings.Contains(err.Error(), file+" has changed") {
		t.Errorf("Add of a file that changed: %v", err)
	}
	tuned = tuned.open(t)
	if err := os.Remove(filepath.Join(base.dir, "model.safetensors")); err != nil {
		t.Fatal(err)
	}
	if err := c.Add(t.Context(), tuned.Checkpoint, nil); err != nil || base.ID("a") == tuned.ID("a") {
		t.Errorf("Add beside a file that is gone: %v", err)
	}
}

// TestManyCheckpoints: hundreds of which none is like another take little time and no hashing.
func TestManyCheckpoints(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	c := New("")
	start := time.Now()
	for range 300 {
		var tensors []kernels.HostTensor
		for i := range 24 {
			data := make([]byte, 200)
			for j := range data {
				data[j] = byte(random.Uint32())
			}
			tensors = append(tensors, tensorOf(fmt.Sprint("layer", i), kernels.BF16, 10, 10, data))
		}
		if got := hashed(t, c, write(t, tensors...).Checkpoint); got != 0 {
			t.Fatalf("%d bytes were hashed", got)
		}
	}
	t.Logf("%v for each, with writing it", time.Since(start)/300)
}

// FuzzSidecar checks that whatever a sidecar holds, its digests are digests.
func FuzzSidecar(f *testing.F) {
	f.Add([]byte(`{"version":1,"path":"/a","size":1,"mtime_ns":2,"inode":3,"sha256":{"a":"` + strings.Repeat("0f", 32) + `"}}`))
	f.Add([]byte(`{"version":1,"sha256":{"a":null}}`))
	f.Add([]byte(`{"version":1,"sha256":{"a":"0f"}}`))
	f.Add([]byte(`{"version":1}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := parseSidecar(raw)
		if err != nil {
			return
		}
		for name, text := range s.Digests {
			d, ok := s.knownDigest(tensor{Entry: weights.Entry{Name: name}})
			if !ok || !strings.EqualFold(hexDigest(d), text) {
				t.Fatalf("%q has digest %q", name, text)
			}
		}
	})
}
