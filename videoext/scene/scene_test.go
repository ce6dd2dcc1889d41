package scene

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
)

// TestFrame: the same every time, whatever was drawn before, and other streets are others.
func TestFrame(t *testing.T) {
	a, b := New(320, 180, 7), New(320, 180, 7)
	a.Frame(time.Minute)
	one, found := a.Frame(3 * time.Second)
	two, again := b.Frame(3 * time.Second)
	if !bytes.Equal(one.Y, two.Y) || !bytes.Equal(one.Cb, two.Cb) || !reflect.DeepEqual(found, again) {
		t.Error("the same time of the same street gives two pictures")
	}
	if other, _ := New(320, 180, 8).Frame(3 * time.Second); bytes.Equal(one.Y, other.Y) {
		t.Error("two streets are the same")
	}
}

// TestBoxes: of every class there is something, inside the frame, and what is in a box is not what stands there without it.
func TestBoxes(t *testing.T) {
	s := New(640, 360, 3)
	empty := New(640, 360, 3).background
	var classes [3]int
	for second := range 20 {
		f, boxes := s.Frame(time.Duration(second) * time.Second)
		picture := f.RGBA()
		for _, d := range boxes {
			classes[d.Class]++
			if d.Intersect(videoext.Whole) != d.Region || d.Area() <= 0 {
				t.Fatalf("second %d: %+v is not in the frame", second, d)
			}
			changed, r := 0, d.Pixels(640, 360)
			for y := r.Min.Y; y < r.Max.Y; y++ {
				for x := r.Min.X; x < r.Max.X; x++ {
					if p, q := picture.RGBAAt(x, y), empty.RGBAAt(x, y); abs(int(p.R)-int(q.R))+abs(int(p.G)-int(q.G))+abs(int(p.B)-int(q.B)) > 40 {
						changed++
					}
				}
			}
			if changed*6 < r.Dx()*r.Dy() {
				t.Errorf("second %d: %+v: %d of %d pixels differ from the empty street", second, d, changed, r.Dx()*r.Dy())
			}
		}
	}
	for class, n := range classes {
		if n < 20 {
			t.Errorf("there are %d things of class %d in 20 s", n, class)
		}
	}
}

func abs(x int) int { return max(x, -x) }

// TestClip: ffmpeg reads the same frames.
func TestClip(t *testing.T) {
	if _, err := exec.LookPath("ffmpeg"); err != nil {
		t.Skip("the ffmpeg program is missing; `make setup` installs it")
	}
	name := filepath.Join(t.TempDir(), "clip.y4m")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	err = New(160, 90, 5).Clip(file, 3, 10, func(int, []videoext.Detection) error { told++; return nil })
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil || told != 3 {
		t.Fatalf("boxes of %d frames, %v", told, err)
	}
	got, err := exec.Command("ffmpeg", "-v", "error", "-i", name, "-f", "rawvideo", "-").Output()
	if err != nil {
		t.Fatal(err)
	}
	var want []byte
	for i := range 3 {
		f, _ := New(160, 90, 5).Frame(time.Duration(i) * 100 * time.Millisecond)
		want = append(append(append(want, f.Y...), f.Cb...), f.Cr...)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("ffmpeg reads %d bytes, %d were drawn", len(got), len(want))
	}
}
