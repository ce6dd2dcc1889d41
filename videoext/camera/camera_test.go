package camera

import (
	"context"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/media/x264"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clip is one that the repository draws by itself: 24 frames of 96 x 64 pixels, 12 in a second.
const clip = "../media/ffmpeg/testdata/drawn.mp4"

func openClip(ctx context.Context) (Source, error) { return ffmpeg.Open(ctx, clip, ffmpeg.Options{}) }

// config is a camera with the drawn clip, as fast as it goes.
func config(p Peer) Config {
	return Config{
		Name: "test", Peer: p, Footage: Footage{Open: openClip, Rate: 12}, Width: 96, Height: 64,
		Encoder: x264.Encoder{}, Preset: "superfast",
	}
}

// TestMethods streams the clip by each method that needs nothing else, over HTTP/2.
func TestMethods(t *testing.T) {
	if err := ffmpeg.Available(); err != nil {
		t.Skip(err)
	}
	for _, spec := range []string{"mpeg:frames=5", "dds:frames=5", "dds:preset=repo,frames=5,adapt=true", "reducto:frames=5,threshold=0.02", "glimpse:frames=5", "eaar:frames=5"} {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, spec)
			totals, err := Run(t.Context(), config(&Server{URL: p.serve(t).URL, Stream: "door", Key: "secret"}))
			if err != nil {
				t.Fatal(err)
			}
			p.check(5)
			if totals.Frames != 24 || totals.Segments != 5 || totals.Done != 5 || totals.Dropped != 0 || totals.Sessions != 1 {
				t.Errorf("the camera did %+v", totals)
			}
			if all := slices.Concat(p.indices[0], p.indices[1], p.indices[2], p.indices[3], p.indices[4]); spec[:4] == "mpeg" && !slices.IsSorted(all) || p.frames[4] != 4 {
				t.Errorf("the frames are %v, and %d in the last segment", all, p.frames[4])
			}
		})
	}
}

// TestOfflineRunWaits: a run that nothing sets the pace of leaves nothing out, however long the server takes.
func TestOfflineRunWaits(t *testing.T) {
	if err := ffmpeg.Available(); err != nil {
		t.Skip(err)
	}
	for _, spec := range []string{"dds:frames=2", "mpeg:frames=2,backlog=20ms", "glimpse:frames=2", "eaar:frames=2,backlog=20ms", "oneadapt:preset=repo,frames=2"} {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, spec)
			p.each = func(_ int, m session.Message) error {
				time.Sleep(40 * time.Millisecond) // segments are encoded in less
				return nil
			}
			totals, err := Run(t.Context(), config(&Server{URL: p.serve(t).URL, Stream: "door", Key: "secret"}))
			if err != nil {
				t.Fatal(err)
			}
			p.check(12)
			if totals.Done != 12 || totals.Dropped != 0 || totals.LeftOut != [2]int{} || spec[:3] == "dds" && totals.Bytes[method.B] == 0 {
				t.Errorf("the camera did %+v", totals)
			}
		})
	}
}
