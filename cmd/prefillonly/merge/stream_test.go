package merge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/merging/generations"
)

// shown counts the pictures that shows has shown.
var shown int

// shows is a server of a stream, door, each of whose pictures is seen twice, of one, wall, whose pictures are all the same, and of one, vast, whose pictures say
// that they are of the largest size that JPEG has.
func shows(_ context.Context, path string, _ int64) ([]byte, error) {
	switch {
	case slices.ContainsFunc([]string{"door", "wall", "vast"}, func(name string) bool { return strings.HasPrefix(path, "/v1/video/streams/"+name) }):
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
	if size := bytes.Index(out.Bytes(), []byte{0, 48, 0, 64}); size >= 0 && strings.Contains(path, "vast") {
		copy(out.Bytes()[size:], []byte{255, 255, 255, 255})
	}
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
		"stream:vast":    {"http://cameras", "stream vast: a frame has 65535 x 65535 pixels, which is more than 33177600"},
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

// TestStreamsTogetherAreBounded: what many streams may take is a fixed sum, of which each has a share, and too many are refused.
func TestStreamsTogetherAreBounded(t *testing.T) {
	f := &runFlags{out: filepath.Join(t.TempDir(), "merged"), server: "http://cameras"}
	for _, c := range []struct{ streams, most int }{{1, 256 << 20}, {4, 256 << 20}, {64, 16 << 20}, {65, 0}} {
		networks := make([]network, c.streams)
		for i := range networks {
			networks[i].Clip = fmt.Sprintf("stream:%d", i)
		}
		list, err := f.recordings(networks)
		if c.most == 0 {
			if err == nil || !strings.Contains(err.Error(), "65 streams are to be recorded: want at most 64 at once") {
				t.Errorf("%d streams: got %v", c.streams, err)
			}
			continue
		}
		if err != nil || len(list) != c.streams || list[0].most != c.most {
			t.Errorf("%d streams: %v, %d bytes each; want %d", c.streams, err, list[0].most, c.most)
		}
	}
}
