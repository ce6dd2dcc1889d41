package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// figuresOf reads the figures of a stream from /metrics: of each name without its prefix, with what its labels have beyond the stream's.
func (p *program) figuresOf(stream string) map[string]float64 {
	p.Helper()
	response, err := http.Get(p.base + "/metrics")
	if err != nil {
		p.Fatal(err)
	}
	text := readAll(p, response)
	if response.StatusCode != http.StatusOK || !strings.Contains(text, "\nvllm:num_requests_running{") {
		p.Fatalf("%d %s", response.StatusCode, text)
	}
	all := map[string]float64{}
	for _, line := range regexp.MustCompile(`(?m)^prefillonly:stream_(\w+)\{(.*)\} (\S+)$`).FindAllStringSubmatch(text, -1) {
		if labels := line[2]; strings.Contains(labels, `stream_name="`+stream+`"`) {
			rest := regexp.MustCompile(`model_name="[^"]*"|stream_name="[^"]*"|,`).ReplaceAllString(labels, "")
			all[line[1]+rest], err = strconv.ParseFloat(line[3], 64)
			if err != nil {
				p.Fatal(err)
			}
		}
	}
	return all
}

// TestVideoMetrics: /metrics has what streams do while they run, does without it while their process is dead, and forgets streams that were
// removed.
func TestVideoMetrics(t *testing.T) {
	p := serveEye(t)
	if status, text := p.declare(`{"name":"street","source":"drawn.mp4","loop":true,"deadline_ms":1500}`); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	const frames = 30 // more than the clip has
	p.until("metrics of frames", func() bool { return p.figuresOf("street")["frames_total"] >= frames })
	f := p.figuresOf("street")
	if n := f["frames_total"]; f[`statestate="running"`] != 1 || f["latency_seconds_count"] != n || f[`latency_seconds_bucketle="+Inf"`] != n ||
		f["boxes_total"] != n-f["dropped_frames_total"] || f["box_scores_total"] <= 0 || f["load"] <= 0 || f[`bytes_totaltrack="a"`] < 13001 || f[`bytes_totaltrack="b"`] != 0 {
		t.Errorf("the figures are %v", f)
	}
	for _, name := range []string{`processor_seconds_totalwork="decode"`, `processor_seconds_totalwork="scale"`, `processor_seconds_totalwork="read"`, "device_seconds_total"} {
		if f[name] <= 0 || f[name] > f["latency_seconds_sum"] && name != `processor_seconds_totalwork="decode"` {
			t.Errorf("%s is %v, and all latency %v", name, f[name], f["latency_seconds_sum"])
		}
	}
	p.strike("video", syscall.SIGKILL)
	p.until("metrics of a new process", func() bool { n := p.figuresOf("street")["frames_total"]; return n >= 1 && n < f["frames_total"] })
	request, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, p.base+"/v1/video/streams/street", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if text := readAll(t, response); response.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", response.StatusCode, text)
	}
	if left := p.figuresOf("street"); len(left) > 0 {
		t.Errorf("a stream that was removed has %v", left)
	}
}

// TestVideoClasses: results have the classes alone that a stream looks for, whether the server reads the frames or a camera sends them.
func TestVideoClasses(t *testing.T) {
	bin := buildCamera(t)
	p := serveEye(t)
	for class, boxes := range []int{1, 0} { // the network finds class 0
		for _, source := range []string{"drawn.mp4", "camera"} {
			name := fmt.Sprint(source, class)
			if status, text := p.declare(fmt.Sprintf(`{"name":%q,"source":%q,"classes":[%d]}`, name, source, class)); status != http.StatusCreated {
				t.Fatalf("%d %s", status, text)
			}
			if source == "camera" {
				clip := filepath.Join("../../videoext/media/ffmpeg/testdata", "drawn.mp4")
				if text, err := exec.Command(filepath.Join(bin, "camera"), "run", "--server", p.base, "--stream", name, "--source", clip, "--realtime=false").CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, text)
				}
			}
			const frames = 20
			for _, r := range p.watch(name, frames) {
				if r.Dropped == "" && len(r.Boxes) != boxes {
					t.Errorf("%s: %+v, want %d boxes", name, r, boxes)
				}
			}
		}
	}
}

// TestVideoPromises: the network sees a stream's frames again although it was last known to be slower than their deadline.
func TestVideoPromises(t *testing.T) {
	file := eyeFile(t, 1)
	t.Setenv("CACHE_DIRECTORY", slowProfile(t, file))
	p := serveEyes(t, eyeEntry("eye", file))
	if status, text := p.declare(`{"name":"street","source":"drawn.mp4","loop":true,"rate":1,"deadline_ms":500}`); status != http.StatusCreated || !strings.Contains(text, `"load":0.6`) {
		t.Fatalf("%d %s", status, text)
	}
	p.until("frames are seen", func() bool { f := p.figuresOf("street"); return f["frames_total"]-f["dropped_frames_total"] >= 8 })
}

// slowProfile makes a directory of profiles by which a frame takes a network 0.6 s.
func slowProfile(t *testing.T, file string) (cache string) {
	t.Helper()
	cache = t.TempDir()
	if out, err := command([]string{"CACHE_DIRECTORY=" + cache}, "profile", file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	found, err := filepath.Glob(filepath.Join(cache, "profile-*.json"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v: %q", err, found)
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	slow := regexp.MustCompile(`"(base|token)_ns": \d+`).ReplaceAll(text, []byte(`"${1}_ns": 300000000`))
	if err := os.WriteFile(found[0], slow, 0o600); err != nil {
		t.Fatal(err)
	}
	return cache
}
