package driver

import (
	"bufio"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/kernels/cuda"
)

// resources is what ptxas says of one kernel for one architecture.
type resources struct {
	kernel, arch             string
	registers, shared, spill int
}

var (
	compiling = regexp.MustCompile(`Compiling entry function '(\w+)' for '(sm_\w+)'`)
	spilled   = regexp.MustCompile(`(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads`)
	used      = regexp.MustCompile(`Used (\d+) registers`)
	inShared  = regexp.MustCompile(`(\d+) bytes smem`)
)

// readResources reads the report of ptxas -v.
func readResources(t *testing.T, file string) []resources {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	var list []resources
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20) // templates have long names
	for lines.Scan() {
		line := lines.Text()
		if m := compiling.FindStringSubmatch(line); m != nil {
			list = append(list, resources{kernel: m[1], arch: m[2]})
		}
		if len(list) == 0 {
			continue
		}
		last := &list[len(list)-1]
		if m := spilled.FindStringSubmatch(line); m != nil {
			last.spill += number(m[1]) + number(m[2]) + number(m[3])
		}
		if m := used.FindStringSubmatch(line); m != nil {
			last.registers = number(m[1])
		}
		if m := inShared.FindStringSubmatch(line); m != nil {
			last.shared = number(m[1])
		}
	}
	return list
}

// noWheels is the exit code of tools/build/cuda.sh when the Python package index has not given what it needs.
const noWheels = 69

// TestWithoutPackageIndex: in a tree without a compiler, with a pip that comes halfway, the script says by its exit
// code that there is none to be had, and leaves nothing that a later call would take for one.
func TestWithoutPackageIndex(t *testing.T) {
	text, err := os.ReadFile("../../../tools/build/cuda.sh")
	if err != nil {
		t.Fatal(err)
	}
	tree := t.TempDir()
	const pip = "#!/bin/sh\nfor last; do :; done; mkdir -p .cuda/cu13.part && echo \"no $last\" >&2; exit 1\n"
	for file, text := range map[string]string{"tools/build/cuda.sh": string(text), ".cuda/venv/bin/pip": pip} {
		if err := os.MkdirAll(path.Dir(path.Join(tree, file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path.Join(tree, file), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script := exec.Command(tree + "/tools/build/cuda.sh")
	out, _ := script.CombinedOutput()
	if script.ProcessState.ExitCode() != noWheels || !strings.Contains(string(out), "cannot be fetched") {
		t.Errorf("%v, want exit status %d\n%s", script.ProcessState, noWheels, out)
	}
	if _, err := os.Stat(tree + "/.cuda/cu13"); err == nil {
		t.Error("a part of a compiler is left as if it were whole")
	}
}

// TestKernelsBuild compiles the kernels and the attention templates, if they are not up to date, and
// holds each to what lets an SM run its blocks side by side.
func TestKernelsBuild(t *testing.T) {
	script := exec.Command("../../../tools/build/cuda.sh")
	out, err := script.CombinedOutput()
	switch {
	case err != nil && script.ProcessState.ExitCode() == noWheels:
		t.Skip("the GPU kernels were not compiled: their compiler is fetched from the Python package index, which is out of reach; `make cuda-kernels` tries again")
	case err != nil:
		t.Fatalf("tools/build/cuda.sh: %v (it needs python3 with venv, and gcc)\n%s", err, out)
	}
	want := 0
	err = fs.WalkDir(cuda.Sources, ".", func(file string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(file) != ".cu" {
			return err
		}
		text, err := cuda.Sources.ReadFile(file)
		want += strings.Count(string(text), "\nPF_KERNEL ")
		return err
	})
	if err != nil || want == 0 {
		t.Fatalf("%d kernels: %v", want, err)
	}
	built := map[string]int{}
	for _, r := range readResources(t, "build/kernels.txt") {
		built[r.arch]++
		// 64 registers let 4 blocks of 256 threads share an SM's 65536.
		if r.spill > 0 || r.registers == 0 || r.registers > 64 || r.shared > 8<<10 {
			t.Errorf("%+v: want no spills, at most 64 registers and 8 KiB", r)
		}
	}
	templates := map[string]int{}
	for _, file := range []string{"build/sm80.txt", "build/sm90.txt"} {
		for _, r := range readResources(t, file) {
			templates[r.arch]++
			if r.spill > 0 || r.registers == 0 || r.registers > 255 {
				t.Errorf("%+v: want no spills and at most 255 registers", r)
			}
		}
	}
	for _, arch := range []string{"sm_80", "sm_89", "sm_90a"} {
		if built[arch] != want || templates[arch] < 2 {
			t.Errorf("%s: %d of %d kernels and %d templates (of heads of 64 and 128)", arch, built[arch], want, templates[arch])
		}
	}
}
