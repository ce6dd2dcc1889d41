package video

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/emulate"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/methods"
)

func rows() (all []Row) {
	for i, bytes := range []int{100_000, 200_000, 400_000} {
		for _, m := range []struct{ name, setting string }{{"mpeg", "qp=30,scale=0.8"}, {"mpeg", "qp=30,scale=1"}, {"dds", "preset=tuned,low=40"}, {"glimpse", "threshold=0.1"}, {"dds", fmt.Sprintf("preset=tuned,objectness=0.%d", i+1)}} {
			all = append(all, Row{
				Clip: "road", Method: m.name, Setting: m.setting, F1DDS: 0.5 + 0.1*float64(i), F1OneAdapt: 0.4, NAL: bytes, Container: bytes + 900, Original: 1_000_000,
				Delay: time.Duration(1500+i) * time.Millisecond, Camera: time.Second, Server: 2 * time.Second, Objects: 2.5,
				Inferences: 15, Gradients: 1, GradientTime: 300 * time.Millisecond, Feedback: 700, Encodes: 3,
			})
		}
	}
	return all
}

// TestResults holds that results are written under the columns that are promised.
func TestResults(t *testing.T) {
	var file bytes.Buffer
	if err := Write(&file, rows()); err != nil {
		t.Fatal(err)
	}
	const head = "clip,method,setting,f1_dds,f1_oneadapt,bytes_nal,bytes_container,bytes_original,delay_s,camera_cpu_s,server_device_s,objects,looks,gradients,gradient_device_s,feedback_bytes,encodes,link\n" +
		"road,mpeg,\"qp=30,scale=0.8\",0.5000,0.4000,100000,100900,1000000,1.500,1.000,2.000,2.50,15,1,0.300,700,3,\n"
	if !strings.HasPrefix(file.String(), head) {
		t.Errorf("it begins\n%.300s", file.String())
	}
	if got, want := strings.Count(file.String(), "\n"), 1+len(rows()); got != want {
		t.Errorf("%d lines, want %d", got, want)
	}
}

func TestDraw(t *testing.T) {
	dir := t.TempDir()
	if err := Draw(rows(), Resources[0], dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"video-accuracy-dds-road.svg": {"mpeg, scale 0.8", "mpeg, scale 1", "dds, preset tuned", "glimpse"}, "video-accuracy-oneadapt-road.svg": {"F1 by OneAdapt"},
		"video-sensitivity-road.svg": {"least objectness"}, "video-delay-road.svg": {"seconds", "glimpse"}, "video-cost-road.svg": {"camera", "dds"},
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		}
		for _, w := range want {
			if !strings.Contains(string(text), w) {
				t.Errorf("%s is without %q", name, w)
			}
		}
	}
}

// TestDrawConditions holds that results over links that change, and of parts of clips, have charts of their own, and only those.
func TestDrawConditions(t *testing.T) {
	var all []Row
	for i, r := range rows() {
		for _, part := range []string{"@0s", "@3s"} {
			r.Clip, r.Link, r.Objects = "road"+part, "", float64(i)
			all = append(all, r)
		}
		for _, name := range []string{"400kbit~0.1", "400kbit~0.1#2", "400kbit~0.4"} {
			r.Clip, r.Link = "road", name
			all = append(all, r)
		}
	}
	dir := t.TempDir()
	if err := Draw(all, Resources[0], dir); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{"video-density.svg", "video-link-accuracy-road.svg", "video-link-delay-road.svg"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%q, %v; want %q", names, err, want)
	}
}

// TestParts holds that all frames of a clip are in parts, in order, but for less than half of one at the end.
func TestParts(t *testing.T) {
	clip := &emulate.Clip{Name: "road", Rate: 10, Bytes: 1000}
	for i := range 100 {
		clip.Frames = append(clip.Frames, &media.Frame{Index: i})
	}
	for seconds, want := range map[float64][]int{0: {100}, 20: {100}, 3: {30, 30, 30}, 4: {40, 40, 20}, 6: {60, 40}} {
		next := 0
		parts := Parts(clip, seconds)
		for i, p := range parts {
			if len(parts) != len(want) || len(p.Frames) != want[i] || p.Frames[0].Index != next || p.Bytes != 10*want[i] {
				t.Errorf("parts of %g s: part %d of %d has %d frames from %d on and %d bytes, want %d", seconds, i, len(parts), len(p.Frames), p.Frames[0].Index, p.Bytes, want)
			}
			next += len(p.Frames)
		}
	}
	if name := Parts(clip, 4)[1].Name; name != "road@4s" {
		t.Errorf("the second part is %s", name)
	}
}

func TestSpecifications(t *testing.T) {
	got := Specifications("dds,mpeg:qp=30,scale=0.8,awstream,dds:low=40")
	if want := []string{"dds", "mpeg:qp=30,scale=0.8", "awstream", "dds:low=40"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestUsual holds that all methods have settings to run with, which they take.
func TestUsual(t *testing.T) {
	l := methods.Learned{Configurations: []methods.OperatingPoint{{Quality: videoext.Quality{QP: 30, Scale: 1}, Rate: 1e4, Accuracy: 0.5}}}
	for _, name := range methods.Names() {
		all := Usual(name, 12, 100_000)
		if len(all) < 3 {
			t.Errorf("%s is run with %q", name, all)
		}
		for _, specification := range all {
			m, err := methods.New(specification, l)
			if err != nil || m.Frames != 12 && name != "glimpse" {
				t.Errorf("%s: %v, %d frames a segment", specification, err, m.Frames)
			}
		}
	}
}

// TestPublished holds that a threshold changes what counts as found, and nothing else by default.
func TestPublished(t *testing.T) {
	if r := Published(0, 0.5); r.DDS.Area != 0.5 || r.OneAdapt.Area != 0.5 || r.DDS.Found != 0.5 {
		t.Errorf("for boxes of half a frame %+v", r)
	}
	if r := Published(0, 0); r.DDS.Found != 0.5 || r.DDS.Truth != 0.3 || r.OneAdapt.Truth != 0.5 {
		t.Errorf("%+v", r)
	}
	if r := Published(0.3, 0); r.DDS.Found != 0.3 || r.DDS.Truth != 0.3 || r.OneAdapt.Truth != 0.3 || r.OneAdapt.Found != 0.3 {
		t.Errorf("%+v", r)
	}
}

// still is a video that stands for ten frames in turn with ten that move.
func still(f *media.Frame) bool { return f.Index/10%2 == 0 }

// seer finds one thing, which moves.
type seer struct{}

func (seer) Infer(f *media.Frame) (videoext.Findings, error) {
	at := float32(f.Index%10) / 10
	if still(f) {
		at = 0
	}
	return videoext.Findings{Detections: []videoext.Detection{{Region: videoext.Region{X0: at, Y0: 0, X1: at + 0.1, Y1: 0.1}, Score: 0.9}}}, nil
}

// TestProfileFilter holds that few frames are sent of segments that stand still, and all of those that move.
func TestProfileFilter(t *testing.T) {
	clip := &emulate.Clip{Name: "turns", Rate: 10, Bytes: 1}
	for i := range 180 {
		f := media.NewFrame(2, 2)
		f.Index = i
		clip.Frames = append(clip.Frames, f)
	}
	differ := func(_ method.Feature, _, f *media.Frame) float64 {
		if still(f) {
			return 0.02
		}
		return 0.5
	}
	tools := emulate.Tools{Server: seer{}, Differ: differ, Clock: func() time.Duration { return 0 }}
	p, err := ProfileFilter(tools, clip, 10, Published(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Examples) != 6 || p.Examples[0].Threshold < 0.2 || p.Examples[1].Threshold >= 0.5 {
		t.Errorf("learnt %+v", p)
	}
	m, err := methods.New("reducto:frames=10", methods.Learned{Filter: p})
	if err != nil {
		t.Fatal(err)
	}
	for segment, want := range []int{1, 10} {
		camera, _ := m.New()
		values := make([]float64, 10)
		for i := range values {
			values[i] = differ(0, nil, clip.Frames[10*segment+i])
		}
		camera.Step(0, method.Captured{Frames: 10, Width: 64, Height: 64})
		do := camera.Step(0, method.Measured{Values: values})
		if encode, ok := do[0].(method.Encode); !ok || len(encode.Frames) != want {
			t.Errorf("of segment %d are sent %+v, want %d frames", segment, do[0], want)
		}
	}
	tools.Differ = func(method.Feature, *media.Frame, *media.Frame) float64 { return 0 }
	if _, err := ProfileFilter(tools, clip, 10, Published(0, 0)); err == nil || !strings.Contains(err.Error(), "do not differ") {
		t.Errorf("a picture: %v", err)
	}
}
