package cuda

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

	"github.com/prefillonly/prefillonly/kernels/cuda/src"
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

// TestKernelsBuild compiles the kernels and the attention templates, if they are not up to date, and
// holds each to what lets an SM run its blocks side by side.
func TestKernelsBuild(t *testing.T) {
	script := exec.Command("../../tools/cuda.sh")
	if out, err := script.CombinedOutput(); err != nil {
		t.Fatalf("tools/cuda.sh: %v (it needs python3 with venv, gcc, and a package index for the compiler)\n%s", err, out)
	}
	want := 0
	err := fs.WalkDir(src.Files, ".", func(file string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(file) != ".cu" {
			return err
		}
		text, err := src.Files.ReadFile(file)
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
