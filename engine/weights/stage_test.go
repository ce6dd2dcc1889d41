package weights

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// TestStage: staged tensors hold what the mapping holds, whatever their sizes; memory of the caller's
// own is left alone, and a second Read may need more room.
func TestStage(t *testing.T) {
	dir := t.TempDir()
	small, large := randomTensor(t, kernels.BF16, "small", 3), randomTensor(t, kernels.F32, "large", 1500, 3001) // three parts
	writeFile(t, dir, singleFile, large, small)
	c := open(t, dir)
	var s Stage
	defer s.Free()
	get := func(name string, shape ...int) kernels.HostTensor {
		tensor, err := c.Tensor(name, shape...)
		if err != nil {
			t.Fatal(err)
		}
		return tensor
	}
	own := randomTensor(t, kernels.F32, "own", 5)
	for _, want := range [][]kernels.HostTensor{{small}, {own}, {small, own, large, small}, {}} {
		var mapped []kernels.HostTensor
		for _, w := range want {
			switch w.Name {
			case "small":
				mapped = append(mapped, get("small", 3))
			case "large":
				mapped = append(mapped, get("large", 1500, 3001))
			default:
				mapped = append(mapped, w)
			}
		}
		staged, err := s.Read(mapped...)
		if err != nil || len(staged) != len(want) {
			t.Fatalf("%d of %d tensors: %v", len(staged), len(want), err)
		}
		for i, got := range staged {
			if got.File != nil || got.Name != want[i].Name || !bytes.Equal(got.Data, want[i].Data) {
				t.Errorf("tensor %q came out differently", want[i].Name)
			}
			if mapped[i].File != nil && &got.Data[0] == &mapped[i].Data[0] {
				t.Errorf("tensor %q is still its mapping", want[i].Name)
			}
		}
	}
}

// TestCutShort: a file that is cut short after it was opened is an error that names the file and the
// offset, and no fault.
func TestCutShort(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, singleFile, randomTensor(t, kernels.F32, "a", 3000, 3000))
	c := open(t, dir)
	tensor, err := c.Tensor("a", 3000, 3000)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, singleFile)
	if err := os.Truncate(file, 20<<20); err != nil {
		t.Fatal(err)
	}
	var s Stage
	defer s.Free()
	_, staged := s.Read(tensor)
	for what, err := range map[string]error{"Read": staged, "Check": Check(tensor)} {
		if err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "at offset ") || !strings.Contains(err.Error(), "unexpected EOF") {
			t.Errorf("%s of a tensor that is cut short: %v", what, err)
		}
	}
	if err := os.Truncate(file, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Fingerprint(); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("Fingerprint of an empty file: %v", err)
	}
}
