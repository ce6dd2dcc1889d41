package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"image"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/dnn/golden"
	"github.com/prefillonly/prefillonly/engine/images"
)

// rapidOCR is a folder with the networks of the Python package, where tools/golden/onnx_packages.py has left it.
func rapidOCR(t *testing.T) string {
	t.Helper()
	wheels, _ := filepath.Glob("../../build/onnx_packages/rapidocr-*.whl")
	if len(wheels) == 0 {
		t.Skip("the networks of rapidocr are not in build/onnx_packages: run tools/golden/onnx_packages.py rapidocr")
	}
	wheel, err := zip.OpenReader(wheels[0])
	if err != nil {
		t.Fatal(err)
	}
	defer wheel.Close()
	dir := t.TempDir()
	for _, f := range wheel.File {
		if filepath.Ext(f.Name) != ".onnx" {
			continue
		}
		from, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(f.Name)), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// readByCommand is what `prefillonly ocr` prints.
func readByCommand(t *testing.T, args ...string) string {
	t.Helper()
	root, out := newRootCommand(), &bytes.Buffer{}
	root.SetOut(out)
	root.SetArgs(append([]string{"ocr"}, args...))
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// changes is how many characters are to be changed, added or left out to make b of a.
func changes(a, b []rune) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i, x := range a {
		before := row[0]
		row[0] = i + 1
		for j, y := range b {
			change := before
			if x != y {
				change++
			}
			before, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, change)
		}
	}
	return row[len(b)]
}

// TestTextIsRapidOCRs: of pictures of print in two scripts at most two characters of a hundred are others than rapidocr 3.10.0 reads with
// the same networks.
func TestTextIsRapidOCRs(t *testing.T) {
	if testing.Short() {
		t.Skip("four pictures take 10 s")
	}
	dir, networks := filepath.Join(golden.Data(t), "text"), rapidOCR(t)
	text, err := os.ReadFile("../../engine/ocr/testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var want struct{ Texts map[string]string }
	if err := json.Unmarshal(text, &want); err != nil || len(want.Texts) == 0 {
		t.Fatal(want.Texts, err)
	}
	wrong, all := 0, 0
	for name, text := range want.Texts {
		got := strings.TrimSuffix(readByCommand(t, filepath.Join(dir, name), "--model", networks), "\n")
		off := changes([]rune(text), []rune(got))
		wrong, all = wrong+off, all+len([]rune(text))
		if off > 0 {
			t.Logf("%s: %d of %d characters differ:\n%s\nwant\n%s", name, off, len([]rune(text)), got, text)
		}
	}
	if 50*wrong > all {
		t.Errorf("%d of %d characters differ", wrong, all)
	}
}

// TestUpsideDown: a line that stands on its head is read like one that does not.
func TestUpsideDown(t *testing.T) {
	if testing.Short() {
		t.Skip("two pictures take 5 s")
	}
	file, networks := filepath.Join(golden.Data(t), "text", "en_rec.jpg"), rapidOCR(t)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	upright, err := images.DecodeImage(data)
	if err != nil {
		t.Fatal(err)
	}
	at := upright.Bounds()
	turned := image.NewRGBA(at)
	for y := range at.Dy() {
		for x := range at.Dx() {
			turned.Set(at.Dx()-1-x, at.Dy()-1-y, upright.At(x, y))
		}
	}
	over := filepath.Join(t.TempDir(), "over.png")
	var out bytes.Buffer
	if err := png.Encode(&out, turned); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(over, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Text  string
		Lines []struct{ Score float64 }
	}
	if err := json.Unmarshal([]byte(readByCommand(t, over, "--json", "--model", networks)), &got); err != nil {
		t.Fatal(err)
	}
	if want := "To facilitate the shot type analysis in videos, we collect MovieShots, a large-scale"; got.Text != want || len(got.Lines) != 1 || got.Lines[0].Score < 0.9 {
		t.Errorf("got %+v, want %q", got, want)
	}
}
