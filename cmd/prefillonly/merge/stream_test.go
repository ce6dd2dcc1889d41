package merge

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/color"
	"image/jpeg"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/merging/generations"
)

// shown counts the pictures that shows has shown.
var shown int

// shows is a server of a stream, door, each of whose pictures is seen twice, and one, wall, whose pictures are all the same.
func shows(_ context.Context, path string, _ int64) ([]byte, error) {
	switch {
	case strings.HasPrefix(path, "/v1/video/streams/door"), strings.HasPrefix(path, "/v1/video/streams/wall"):
	default:
		return nil, errors.New("there is no such stream")
	}
	if !strings.HasSuffix(path, "/frame.jpg") {
		return []byte("{}"), nil
	}
	if shown++; shown < 3 {
		return nil, errors.New("no frame that was seen of door yet")
	}
	picture := image.NewGray(image.Rect(0, 0, 64, 48))
	for i := range picture.Pix {
		if strings.Contains(path, "door") {
			picture.SetGray(i%64, i/64, color.Gray{Y: uint8(shown / 2 * 16)})
		}
	}
	var out bytes.Buffer
	err := jpeg.Encode(&out, picture, nil)
	return out.Bytes(), err
}

// TestClipsOfStreams: pictures of a stream are a clip in the merge's directory, which a second run uses again.
func TestClipsOfStreams(t *testing.T) {
	a, b, clip := eyes(t)
	out := filepath.Join(t.TempDir(), "merged")
	args := []string{"run", a, b, "--data", "a=stream:door,b=" + clip, "--server", "http://cameras", "--collect", "2s", "--out", out}
	shown = 0
	text, err := execute(args...)
	if err != nil || !strings.Contains(text, "stream door: ") {
		t.Fatalf("%v:\n%s", err, text)
	}
	file, err := os.ReadFile(filepath.Join(out, "stream-door.avi"))
	if err != nil || !bytes.HasPrefix(file, []byte("RIFF")) {
		t.Fatal(err)
	}
	if frames := bytes.Count(file, []byte("00dc")) / 2; frames < fewestFrames || frames > shown/2+1 {
		t.Errorf("%d frames of %d pictures, each shown twice", frames, shown)
	}
	before := shown
	if text, err := execute(args...); err != nil || shown != before || strings.Contains(text, "stream door") {
		t.Errorf("called again, %v: %d pictures more\n%s", err, shown-before, text)
	}
	if s, err := generations.Read(out); err != nil || s.Inputs.Models[0].Clip != filepath.Join(out, "stream-door.avi") {
		t.Errorf("%v, %+v", err, s)
	}
}

// TestBadStreamsAreNamed, and nothing is left of them.
func TestBadStreamsAreNamed(t *testing.T) {
	a, b, _ := eyes(t)
	out := filepath.Join(t.TempDir(), "merged")
	for data, c := range map[string]struct{ server, want string }{
		"stream:door":    {"", "--data stream:door: say with --server whose stream that is"},
		a:                {"http://cameras", "--server http://cameras: no clip of --data is a stream:NAME"},
		"stream:":        {"http://cameras", `invalid name "" of a stream`},
		"stream:../door": {"http://cameras", `invalid name "../door" of a stream`},
		"stream:attic":   {"http://cameras", "stream attic: there is no such stream"},
		"stream:wall":    {"http://cameras", "stream wall has shown 1 frames in 1s, want 10 or more"},
	} {
		args := []string{"run", a, b, "--data", data, "--collect", "1s", "--out", out}
		if c.server != "" {
			args = append(args, "--server", c.server)
		}
		if _, err := execute(args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", data, err, c.want)
		}
	}
	if _, err := execute("run", a, b, "--data", "stream:door", "--server", "http://cameras", "--collect", "0s", "--out", out); err == nil || !strings.Contains(err.Error(), "--collect 0s") {
		t.Error(err)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a directory was made for nothing")
	}
}
