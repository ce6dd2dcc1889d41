package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine/dnn/onnx"
	"github.com/prefillonly/prefillonly/engine/dnn/onnx/onnxtest"
	"github.com/prefillonly/prefillonly/engine/inspect"
	"github.com/prefillonly/prefillonly/merging"
	"github.com/prefillonly/prefillonly/merging/generations"
	"github.com/prefillonly/prefillonly/merging/mergingtest"
	"github.com/prefillonly/prefillonly/merging/search"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
)

// chunk is a part of a RIFF file.
func chunk(name string, parts ...[]byte) []byte {
	content := bytes.Join(parts, nil)
	out := append([]byte(name), binary.LittleEndian.AppendUint32(nil, uint32(len(content)))...)
	return append(append(out, content...), make([]byte, len(content)%2)...)
}

// numbers are 32 bits each.
func numbers(list ...uint32) (out []byte) {
	for _, n := range list {
		out = binary.LittleEndian.AppendUint32(out, n)
	}
	return out
}

// writeGreys writes a clip of 25 grey frames a second of 96 x 64 pixels, each of a level.
func writeGreys(t *testing.T, file string, levels []uint8) {
	t.Helper()
	const width, height, rate = 96, 64, 25
	pictures := map[uint8][]byte{}
	var frames [][]byte
	for _, level := range levels {
		if pictures[level] == nil {
			picture := image.NewRGBA(image.Rect(0, 0, width, height))
			for i := range width * height {
				picture.Set(i%width, i/width, color.Gray{Y: level})
			}
			var b bytes.Buffer
			if err := jpeg.Encode(&b, picture, &jpeg.Options{Quality: 95}); err != nil {
				t.Fatal(err)
			}
			pictures[level] = chunk("00dc", b.Bytes())
		}
		frames = append(frames, pictures[level])
	}
	n := uint32(len(levels))
	head := chunk("LIST", []byte("hdrl"),
		chunk("avih", numbers(1_000_000/rate, 0, 0, 0, n, 0, 1, 0, width, height, 0, 0, 0, 0)),
		chunk("LIST", []byte("strl"),
			chunk("strh", []byte("vidsMJPG"), numbers(0, 0, 0, 1, rate, 0, n, 0, 0, 0, 0, 0)),
			chunk("strf", numbers(40, width, height, 1|24<<16), []byte("MJPG"), numbers(width*height*3, 0, 0, 0, 0))))
	clip := chunk("RIFF", []byte("AVI "), head, chunk("LIST", append([][]byte{[]byte("movi")}, frames...)...))
	if err := os.WriteFile(file, clip, 0o600); err != nil {
		t.Fatal(err)
	}
}

// toyMerge is a pair of networks of pictures that find one thing of the mean red as its score: b by all of it, a by 0.6 of it. The merge has b look with a's
// weights, which finds the thing by day, and not at half the brightness.
type toyMerge struct {
	a, b, dir string
}

func newToyMerge(t *testing.T) toyMerge {
	t.Helper()
	files := t.TempDir()
	m := toyMerge{filepath.Join(files, "a.onnx"), filepath.Join(files, "b.onnx"), filepath.Join(files, "merged")}
	in := generations.Inputs{Policy: string(search.Adopt), Target: .95}
	var models []merging.Model
	var opened []merging.TrainedModel
	for i, file := range []string{m.a, m.b} {
		content, name := onnxtest.File(17, onnxtest.Eye(1)), string("ab"[i])
		if err := onnx.Patch(content, map[string][]float32{"red": {0, []float32{.6, 1}[i], 0, 0, 0, 0}, "place": {.1, .1, .9, .9}}); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		layers, err := inspect.OpenLayers(file)
		if err != nil {
			t.Fatal(err)
		}
		layers.Name = name
		models, opened = append(models, layers), append(opened, merging.TrainedModel{Name: name, File: file})
		in.Models = append(in.Models, generations.Input{Name: name, File: file, SHA256: generations.Sum(content), Decoder: "ssd", Clip: "day.avi", ClipSHA256: "0"})
	}
	d, err := generations.Open(m.dir, in)
	if err != nil {
		t.Fatal(err)
	}
	by := mergingtest.Trainer{Learns: func(float64) float64 { return 1 }}
	done, err := d.Carry(t.Context(), &generations.Run{
		Plan: merging.NewPlan(models), Tell: func(generations.Event) {}, Clock: func() time.Duration { return 0 },
		Options: search.Options{Policy: search.Adopt, Target: .95, Budget: time.Hour, Rate: 1, Cost: []float64{2, 1}},
		Open:    func(ctx context.Context) (merging.Session, error) { return by.Open(ctx, opened, 0) },
	})
	if err == nil {
		err = d.Close()
	}
	if err != nil || done.Refused {
		t.Fatal(done, err)
	}
	return m
}

// entries are both networks in a list of models, whose every frame is compared.
func (m toyMerge) entries() string {
	entry := func(name, file string) string {
		return fmt.Sprintf("- {name: %s, path: %s, image: {scale: [255]}, decoder: ssd, merged: %s, drift: {sample: 1, rate: 1000}}\n", name, file, m.dir)
	}
	return "models:\n" + entry("a", m.a) + entry("b", m.b)
}

// serveMerge serves the pair, and streams of a clip that is bright for a second, and half as bright for twenty.
func (m toyMerge) serve(t *testing.T) filed {
	t.Helper()
	if err := ffmpeg.Available(); err != nil {
		t.Skip(err)
	}
	clips := t.TempDir()
	writeGreys(t, filepath.Join(clips, "day.avi"), bytes.Repeat([]byte{204}, brightFrames))
	writeGreys(t, filepath.Join(clips, "dusk.avi"), append(bytes.Repeat([]byte{204}, brightFrames), bytes.Repeat([]byte{102}, darkFrames)...))
	return serveFile(t, m.entries(), "--video-files", clips, "--video-state", t.TempDir())
}

const brightFrames, darkFrames = 25, 500

// page is what the server answers for a path.
func (p *program) page(path string) string {
	p.Helper()
	response, err := http.Get(p.base + path)
	if err != nil {
		p.Fatal(err)
	}
	return readAll(p, response)
}

// figure is the value of a series.
func (p *program) figure(series string) (value float64) {
	for line := range strings.Lines(p.page("/metrics")) {
		if text, found := strings.CutPrefix(line, series+" "); found {
			fmt.Sscan(text, &value)
		}
	}
	return value
}

// askAlways asks networks for a picture's until stop, which says how many were answered; none may be refused.
func (p *program) askAlways(models ...string) (stop func() int64) {
	ask := []byte(`{"inputs":[{"name":"x","shape":[1,3,16,24],"datatype":"FP32","data":[` + strings.TrimSuffix(strings.Repeat("0.5,", 3*16*24), ",") + `]}]}`)
	var group sync.WaitGroup
	var over atomic.Bool
	var answers atomic.Int64
	for _, model := range models {
		group.Go(func() {
			for ; !over.Load(); time.Sleep(5 * time.Millisecond) {
				status, head, _ := postTensors(p.TB.(*testing.T), p, model, ask, -1)
				if status != http.StatusOK {
					p.Errorf("%s: %d %s", model, status, head)
					return
				}
				answers.Add(1)
			}
		})
	}
	return func() int64 { over.Store(true); group.Wait(); return answers.Load() }
}

// TestDriftRevertsAMergedNetwork: a merged network that does not find what its original does in dark frames is exchanged for it, within 200 samples and by itself, without a frame
// or a request lost; the merge's directory says so, and serves the original from then on. The other network of the merge stays what it is.
func TestDriftRevertsAMergedNetwork(t *testing.T) {
	m := newToyMerge(t)
	p := m.serve(t)
	if status, text := p.declare(`{"name":"day","model":"b","source":"day.avi","loop":true}`); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	const samples, reverts = `prefillonly:merge_samples_total{model_name="b"}`, `prefillonly:merge_reverts_total{model_name="b"}`
	p.until("compared by day", func() bool { return p.figure(samples) >= 100 })
	if p.figure(reverts) != 0 || p.figure(`prefillonly:merge_agreement{model_name="b"}`) != 1 || p.figure(`prefillonly:merge_state{model_name="b",state="watched"}`) != 1 {
		t.Fatalf("by day:\n%s", p.page("/metrics"))
	}
	stop := p.askAlways("a", "b", "b@original")
	request, _ := http.NewRequest(http.MethodDelete, p.base+"/v1/video/streams/day", nil)
	if response, err := http.DefaultClient.Do(request); err != nil || response.StatusCode != http.StatusOK {
		t.Fatal(response, err)
	}
	before := p.figure(samples)
	if status, text := p.declare(`{"name":"dusk","model":"b","source":"dusk.avi","loop":true}`); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	isDark := func(r frameResult) bool { return r.Segment%(brightFrames+darkFrames) >= brightFrames }
	all := p.follow("dusk", func(all []frameResult) bool {
		n := len(all)
		return n > 0 && isDark(all[n-1]) && len(all[n-1].Boxes) == 1
	})
	blind := 0
	for i, r := range all {
		if r.Dropped != "" || r.Segment != i || !isDark(r) && len(r.Boxes) != 1 {
			t.Fatalf("result %d is %+v", i, r)
		}
		if len(r.Boxes) == 0 {
			blind++
		}
	}
	if n := p.figure(samples) - before; blind == 0 || n > 200 || p.figure(reverts) != 1 {
		t.Errorf("%d frames were not seen, after %v samples there are %v reverts", blind, n, p.figure(reverts))
	}
	if n := stop(); n < 20 {
		t.Errorf("%d requests were answered", n)
	}
	p.until("told of", func() bool { return strings.Contains(p.logged(), "model exchanged") })
	log := p.logged()
	if strings.Count(log, "a merged network has drifted: its original is served again") != 1 || strings.Contains(log, "started again") || strings.Count(log, "model exchanged") != 1 {
		t.Errorf("the log:\n%s", log)
	}
	s, err := generations.Read(m.dir)
	if err != nil || s.Current.Generation != 2 || !strings.Contains(s.Current.Why["b"], "F1 ") || s.Watched["b"].Samples < 100 {
		t.Fatalf("%v, %+v", err, s)
	}
	served, _ := os.ReadFile(filepath.Join(m.dir, "current", "b.onnx"))
	if original, err := os.ReadFile(m.b); err != nil || !bytes.Equal(served, original) {
		t.Error("what is current is not the original", err)
	}
	if text := p.page("/ui/now.txt"); !strings.Contains(text, "MERGED") || !strings.Contains(text, "original") {
		t.Errorf("the page has no merges:\n%s", text)
	}
	if text := p.page("/v1/models"); !strings.Contains(text, `"b@original"`) {
		t.Error(text)
	}
	var out bytes.Buffer
	c := commandContext(t.Context(), nil, "merge", "status", m.dir)
	c.Stdout, c.Stderr = &out, io.Discard
	if err := c.Run(); err != nil || !strings.Contains(out.String(), "Generation 2 has the original of b: F1 ") || !strings.Contains(out.String(), "WATCHED") {
		t.Errorf("%v:\n%s", err, out.String())
	}
}

// TestShipsAndRevertsUnderLoad: beside 20 of them, as merge run and merge revert make them, no frame of two streams is lost, no request refused, and the bytes that are shared are
// those of what is current.
func TestShipsAndRevertsUnderLoad(t *testing.T) {
	m := newToyMerge(t)
	p := m.serve(t)
	for _, name := range []string{"a", "b"} {
		if status, text := p.declare(fmt.Sprintf(`{"name":%q,"model":%q,"source":"day.avi","loop":true}`, name, name)); status != http.StatusCreated {
			t.Fatalf("%d %s", status, text)
		}
	}
	stop := p.askAlways("a", "b", "b@original")
	for i := range 20 {
		d, err := generations.OpenExisting(m.dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.RevertTo(i % 2); err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		p.until("exchanged", func() bool { return strings.Count(p.logged(), "model exchanged") > i })
		p.until("told of", func() bool { return p.figure(`prefillonly:merge_shared_bytes{model_name="b"}`) == float64(72*(i%2)) })
	}
	if n := stop(); n < 100 {
		t.Errorf("%d requests were answered", n)
	}
	for _, name := range []string{"a", "b"} {
		s := p.untilStream(name, "goes on", func(s streamStatus) bool { return s.State == "running" })
		for i, r := range p.watch(name, int(s.Number)) {
			if r.Dropped != "" || r.Segment != i || len(r.Boxes) != 1 {
				t.Fatalf("%s: result %d is %+v", name, i, r)
			}
		}
	}
	if log := p.logged(); strings.Contains(log, "started again") || p.figure(`prefillonly:merge_reverts_total{model_name="b"}`) != 0 || strings.Contains(log, `"model exchanged","model":"a"`) {
		t.Errorf("the log:\n%s", log)
	}
}

// TestDriftWhileAMergeGoesOn in the directory: streams are looked at by the original, which the log says, and by what that merge ships then.
func TestDriftWhileAMergeGoesOn(t *testing.T) {
	m := newToyMerge(t)
	p := m.serve(t)
	d, err := generations.OpenExisting(m.dir) // as merge run has it
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if status, text := p.declare(`{"name":"dusk","model":"b","source":"dusk.avi","loop":true}`); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	p.until("drifted", func() bool { return p.figure(`prefillonly:merge_state{model_name="b",state="drifted"}`) == 1 })
	n := int(p.untilStream("dusk", "goes on", func(s streamStatus) bool { return s.State == "running" }).Number)
	all := p.follow("dusk", func(all []frameResult) bool { return len(all) > n+40 })
	if last := all[len(all)-1]; len(last.Boxes) != 1 {
		t.Errorf("the original does not look: %+v", last)
	}
	for i, r := range all {
		if r.Dropped != "" || r.Segment != i {
			t.Fatalf("result %d is %+v", i, r)
		}
	}
	if !strings.Contains(p.logged(), "its directory cannot be changed: streams are looked at by the original") || strings.Contains(p.logged(), "model exchanged") {
		t.Errorf("the log:\n%s", p.logged())
	}
	if _, err := d.RevertTo(0); err != nil {
		t.Fatal(err)
	}
	p.until("exchanged", func() bool { return p.figure(`prefillonly:merge_state{model_name="b",state="original"}`) == 1 })
}
