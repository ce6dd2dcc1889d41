// Package nvmltest makes a stand-in for NVIDIA's management library, so that what reads it is tested
// where there is no GPU.
package nvmltest

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

//go:embed testdata/fake.c
var source []byte

// Fake is a compiled stand-in with two GPUs of 16 GiB. Its facts can be changed while processes use it.
type Fake struct {
	t   testing.TB
	dir string
}

// New compiles the stand-in, by the C compiler that cgo needs too.
func New(t testing.TB) *Fake {
	t.Helper()
	f := &Fake{t, t.TempDir()}
	file := filepath.Join(f.dir, "fake.c")
	if err := os.WriteFile(file, source, 0o600); err != nil {
		t.Fatal(err)
	}
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "gcc"
	}
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", filepath.Join(f.dir, "libnvidia-ml.so.1"), file).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cc, err, out)
	}
	f.Set()
	return f
}

// Env are the variables that make a new process find the stand-in.
func (f *Fake) Env() []string {
	path := f.dir
	if old := os.Getenv("LD_LIBRARY_PATH"); old != "" {
		path += ":" + old
	}
	return []string{"LD_LIBRARY_PATH=" + path, "FAKE_NVML=" + filepath.Join(f.dir, "facts")}
}

// Set replaces the facts, each a "key value" of those that testdata/fake.c lists.
func (f *Fake) Set(facts ...string) {
	f.t.Helper()
	file := filepath.Join(f.dir, "facts")
	if err := os.WriteFile(file+".new", []byte(strings.Join(facts, "\n")+"\n"), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil { // readers see all or nothing
		f.t.Fatal(err)
	}
}

// UUID is the name of the stand-in's GPU with this index.
func UUID(index int) string {
	return fmt.Sprintf("GPU-%c0000000-0000-0000-0000-00000000000%d", 'a'+index, index)
}
