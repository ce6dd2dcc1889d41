package live

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/client/clienttest"
	"github.com/prefillonly/prefillonly/engine/images"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/reach"
	"github.com/prefillonly/prefillonly/videoext/jobs"
	"github.com/prefillonly/prefillonly/videoext/journal"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg/rtsptest"
)

// clips is where the drawn clips of 24 frames of 96 x 64 pixels are, 12 in a second.
const clips = "../media/ffmpeg/testdata"

// blobs keep tensors in memory.
type blobs struct {
	mu   sync.Mutex
	held map[string][]byte
	next int
}

func (b *blobs) PutFor(_ string, data []byte) (string, error) { return b.Put(data) }

func (b *blobs) Put(data []byte) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	name := fmt.Sprint(b.next)
	b.held[name] = append([]byte(nil), data...)
	return name, nil
}

func (b *blobs) Release(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.held, name)
}

func (b *blobs) Take(name string, to []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	copy(to, b.held[name])
	delete(b.held, name)
	return nil
}

// eye is a pool with a network that finds one thing in each picture, whose score is the picture's mean red.
type eye struct {
	*blobs
	pool      *client.Client
	scheduler *clienttest.Scheduler
	refuse    func(s *wire.Submit) *engine.Error  // nil: nothing
	gradients func(s *wire.Submit) []*wire.Result // answers jobs of gradients
	takes     time.Duration                       // what its device says that a frame took; 0: nothing
	blind     func(s *wire.Submit) bool           // says that nothing is found; nil: what there is
}

// frameCost is what the pool says that a frame takes.
const frameCost = 2 * time.Millisecond

func newEye(t *testing.T) *eye {
	t.Helper()
	if err := ffmpeg.Available(); err != nil {
		t.Skip(err)
	}
	e := &eye{blobs: &blobs{held: map[string][]byte{}}}
	e.scheduler = clienttest.NewScheduler(e.answer)
	e.pool = client.New(client.Config{Inputs: e, Outputs: e, AwayTimeout: time.Hour}, e.scheduler, zap.NewNop())
	e.scheduler.Deliver = e.pool.Deliver
	return e
}

// up has the pool say what it serves.
func (e *eye) up() *eye {
	served := []wire.Served{}
	for _, name := range []string{"eye", "other"} {
		served = append(served, wire.Served{Name: name, State: wire.ModelReady, Executors: 1, Loaded: 1, Cost: wire.Cost{Unit: frameCost}, Tensors: &wire.TensorLimits{
			Inputs: []wire.TensorSpec{{Name: "x", Type: engine.FP32, Shape: []int{1, 3, 16, 24}}}, Outputs: outputs(), Backward: 1.6,
		}})
	}
	e.pool.Deliver(&wire.Welcome{Epoch: 1, Models: 1, Served: served})
	return e
}

func outputs() []wire.TensorSpec {
	return []wire.TensorSpec{{Name: "scores", Type: engine.FP32, Shape: []int{1, 1, 2}}, {Name: "boxes", Type: engine.FP32, Shape: []int{1, 1, 4}}}
}

func (e *eye) answer(s *wire.Submit) []*wire.Result {
	if e.refuse != nil {
		if err := e.refuse(s); err != nil {
			return []*wire.Result{{Job: s.ID, Err: err}}
		}
	}
	if s.Work.(*engine.Tensors).Grad != nil {
		return e.gradients(s)
	}
	e.mu.Lock()
	x := e.held[s.Work.(*engine.Tensors).Inputs[0].Blob]
	e.mu.Unlock()
	red := float32(0)
	for at := 0; at < len(x)/3; at += 4 {
		red += math.Float32frombits(binary.LittleEndian.Uint32(x[at:])) / float32(len(x)/12)
	}
	if e.blind != nil && e.blind(s) {
		red = 0
	}
	out := &engine.TensorOutput{}
	for i, values := range [][]float32{{0, red}, {0.25, 0.25, 0.75, 0.5}} {
		var data []byte
		for _, v := range values {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
		}
		name, _ := e.Put(data)
		spec := outputs()[i]
		out.Outputs = append(out.Outputs, engine.Ref{Name: spec.Name, Type: spec.Type, Shape: spec.Shape, Blob: name})
	}
	r := &wire.Result{Job: s.ID, Output: out}
	r.Timing.Running = e.takes
	return []*wire.Result{r}
}

// gradient answers with derivatives that are all alike.
func (e *eye) gradient(s *wire.Submit, value float32) []*wire.Result {
	in := s.Work.(*engine.Tensors).Inputs[0]
	e.mu.Lock()
	data := make([]byte, len(e.held[in.Blob]))
	e.mu.Unlock()
	for at := 0; at < len(data); at += 4 {
		binary.LittleEndian.PutUint32(data[at:], math.Float32bits(value))
	}
	name, _ := e.Put(data)
	return []*wire.Result{{Job: s.ID, Output: &engine.TensorOutput{Outputs: []engine.Ref{{Name: in.Name, Type: engine.FP32, Shape: in.Shape, Blob: name}}}}}
}

// host is a Server over HTTP, which can be followed by another one.
type host struct {
	*testing.T
	eye     *eye
	maker   *jobs.Maker
	state   string
	models  []Model
	memory  int64 // of Config
	sources reach.Policy
	merges  Merges
	logged  *zap.Logger // nil: the test's
	*Server
	web *httptest.Server
}

var eyes = []Model{{Names: []string{"eye"}, Image: images.Options{Scale: []float64{255}}, Decoder: "ssd"}}

func newHost(t *testing.T, e *eye) *host {
	t.Helper()
	return hostIn(t, e, t.TempDir())
}

func hostIn(t *testing.T, e *eye, state string) *host {
	t.Helper()
	t.Parallel() // it mostly waits
	h := &host{T: t, eye: e, maker: jobs.New(e.pool), state: state, models: eyes}
	t.Cleanup(h.maker.Close)
	h.begin()
	t.Cleanup(h.end)
	return h
}

func (h *host) begin() {
	h.Helper()
	var err error
	log := h.logged
	if log == nil {
		log = zaptest.NewLogger(h.T, zaptest.Level(zap.WarnLevel))
	}
	if h.Server, err = New(Config{Models: h.models, Files: clips, State: h.state, Memory: h.memory, Sources: h.sources, Merges: h.merges}, h.maker, log); err != nil {
		h.Fatal(err)
	}
	h.web = httptest.NewServer(h.Handler())
}

func (h *host) end() {
	h.Server.Close()
	h.web.CloseClientConnections()
	h.web.Close()
}

// declare asks for a stream, and returns the status and the text of the answer.
func (h *host) declare(spec string) (int, string) {
	h.Helper()
	response, err := http.Post(h.web.URL+Prefix+"streams", "application/json", strings.NewReader(spec))
	if err != nil {
		h.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		h.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func (h *host) mustDeclare(spec string) {
	h.Helper()
	if code, text := h.declare(spec); code != http.StatusCreated {
		h.Fatalf("%s: %d %s", spec, code, text)
	}
}

// drop removes a stream.
func (h *host) drop(name string) error {
	st, err := h.findStream(name, owner{Admin: true})
	if err != nil {
		return err
	}
	return h.removeStream(st)
}

// of is how a stream is said to be.
func (h *host) of(name string) status {
	h.Helper()
	st, err := h.findStream(name, owner{Admin: true})
	if err != nil {
		h.Fatal(err)
	}
	return st.describeStatus()
}

// until waits until what a condition says of a stream is so.
func (h *host) until(name, what string, holds func(s status) bool) status {
	h.Helper()
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		s := h.of(name)
		if holds(s) {
			return s
		}
		if time.Now().After(deadline) {
			h.Fatalf("%s is not %s after a minute: %+v", name, what, s)
		}
	}
}

// results are those of a stream from the first on, until there are enough. Their numbers and segments have no gaps, and none comes twice.
func (h *host) results(name string, enough int) (all []journal.Result) {
	h.Helper()
	ctx, stop := context.WithTimeout(h.Context(), time.Minute)
	defer stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.web.URL+Prefix+"streams/"+name+"/results?after=0", nil)
	if err != nil {
		h.Fatal(err)
	}
	request.Header.Set("Accept", "application/x-ndjson")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		h.Fatal(err)
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); len(all) < enough && lines.Scan(); {
		if lines.Text() == "" {
			continue
		}
		var r journal.Result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			h.Fatalf("%q: %v", lines.Text(), err)
		}
		if r.Number != uint64(len(all))+1 {
			h.Fatalf("result %d of %s is number %d", len(all)+1, name, r.Number)
		}
		all = append(all, r)
	}
	if len(all) < enough {
		h.Fatalf("%d results of %s, want %d: %+v", len(all), name, enough, h.of(name))
	}
	return all
}

// inOrder holds results of a source that the server reads to be final, of one segment after the other, whose times grow.
func (h *host) inOrder(all []journal.Result) {
	h.Helper()
	for i, r := range all {
		if r.Segment != i || r.Frame != 0 || r.Of != 1 || !r.Final || i > 0 && r.Time <= all[i-1].Time {
			h.Errorf("result %d is %+v, behind %+v", i, r, all[max(i-1, 0)])
		}
	}
}

func rtspCamera(t *testing.T, c *rtsptest.Camera) (url string) {
	t.Helper()
	c.Units = rtsptest.Drawn()
	return c.Start(t)
}

// TestCameraReturns: a camera that speaks RTSP stops in mid-stream, is away for longer than it takes to open it again, and returns. The stream says so,
// goes on, and times tell how long it was away; no frame has a result twice.
func TestCameraReturns(t *testing.T) {
	h := newHost(t, newEye(t).up())
	camera := &rtsptest.Camera{Loop: true, Pace: 20 * time.Millisecond}
	h.mustDeclare(fmt.Sprintf(`{"name":"door","source":%q}`, rtspCamera(t, camera)))
	h.results("door", 20)
	for range 2 {
		camera.Away()
		gone := time.Now()
		s := h.until("door", "waiting", func(s status) bool { return s.State == stateWaiting && strings.Contains(s.Reason, "refused") })
		if strings.Contains(s.Reason, "secret") || !strings.Contains(s.Reason, "it is opened again after") {
			t.Errorf("the reason is %q", s.Reason)
		}
		before := s.Number
		camera.Back(t)
		h.until("door", "running again", func(s status) bool { return s.State == stateRunning && s.Reason == "" && s.Number > before })
		away := time.Since(gone).Seconds()
		all := h.results("door", int(before)+20)
		h.inOrder(all)
		if gap := all[before].Time - all[before-1].Time; gap < 0.4 || gap > away+5 {
			t.Errorf("the camera was away for up to %.2f s, and times say %.2f s", away, gap)
		}
	}
	last := h.of("door").Number
	h.end() // another process goes on
	h.begin()
	all := h.results("door", int(last)+20)
	h.inOrder(all)
	if s := h.of("door"); s.Dropped != 0 {
		t.Errorf("%+v", s)
	}
}

// TestSchedulerRefuses: a frame that the scheduler refuses is a dropped result with the scheduler's reason, and the stream says it until one is seen.
func TestSchedulerRefuses(t *testing.T) {
	e := newEye(t).up()
	var mu sync.Mutex
	seen := 0
	e.refuse = func(s *wire.Submit) *engine.Error {
		mu.Lock()
		defer mu.Unlock()
		if seen++; seen > 4 && seen <= 12 {
			return engine.Errorf(engine.CodeOverloaded, "0.55 of the device is promised, and stream %s takes 0.21", s.Stream)
		}
		return nil
	}
	h := newHost(t, e)
	h.mustDeclare(`{"name":"clip","source":"drawn.mp4","deadline_ms":20000}`)
	h.until("clip", "refused", func(s status) bool {
		return s.State == stateRunning && strings.Contains(s.Reason, "0.55 of the device is promised, and stream video/clip takes 0.21")
	})
	all := h.results("clip", 24)
	h.inOrder(all)
	for i, r := range all {
		if refused := i >= 4 && i < 12; refused != strings.Contains(r.Dropped, "0.55 of the device") || refused == (len(r.Boxes) == 1) {
			t.Errorf("result %d: %+v", i, r)
		}
	}
	if s := h.until("clip", "ended", func(s status) bool { return s.State == stateEnded }); s.Reason != "" || s.Dropped != 8 {
		t.Errorf("%+v", s)
	}
}

// TestModelsComeAndGo: a stream whose model is gone says so; a file waits for it, and goes on where it was.
func TestModelsComeAndGo(t *testing.T) {
	h := newHost(t, newEye(t).up())
	h.mustDeclare(`{"name":"clip","source":"drawn.mp4"}`)
	h.mustDeclare(`{"name":"door","source":"camera"}`)
	h.results("clip", 4)
	other := []Model{{Names: []string{"other"}, Image: images.Options{Scale: []float64{255}}, Decoder: "ssd"}}
	gone := func(s status) bool {
		return s.State == stateWaiting && strings.Contains(s.Reason, `"eye"; those with a decoder are other`)
	}
	h.SetModels(other)
	h.until("door", "without its model", gone)
	s := h.until("clip", "without its model", gone)
	if code, text := h.declare(`{"name":"late","source":"camera","model":"eye"}`); code != http.StatusNotFound {
		t.Errorf("%d %s", code, text)
	}
	h.mustDeclare(`{"name":"new","source":"drawn.mp4"}`)
	h.results("new", 24)
	h.end() // a process that begins without the model keeps the stream, too
	h.models = other
	h.begin()
	if now := h.until("clip", "without its model", gone); now.Number > s.Number+1 || now.Number == 24 {
		t.Errorf("it goes on without its model: %+v, then %+v", s, now)
	}
	h.SetModels(append(other, eyes...))
	if code, text := h.declare(`{"name":"either","source":"camera"}`); code != http.StatusBadRequest || !strings.Contains(text, "2 models look at pictures; say which: other, eye") {
		t.Errorf("a stream that names neither of two models: %d %s", code, text)
	}
	if code, text := h.declare(`{"name":"x","source":"camera","score":"high"}`); code != http.StatusBadRequest || !strings.Contains(text, "score must be a number, not string") {
		t.Errorf("a score that is a text: %d %s", code, text)
	}
	all := h.results("clip", 24)
	h.inOrder(all)
	for _, r := range all {
		if r.Dropped != "" && !strings.Contains(r.Dropped, "those with a decoder are other") {
			t.Errorf("%+v", r)
		}
	}
	h.until("door", "with its model", func(s status) bool { return s.Reason == "" })
}

// TestFullDisk: streams stand still while their results cannot be kept, and say so; they go on when there is room.
func TestFullDisk(t *testing.T) {
	state := t.TempDir()
	if err := syscall.Mount("none", state, "tmpfs", 0, "size=256k"); err != nil {
		t.Skip(err)
	}
	defer func() {
		if err := syscall.Unmount(state, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	h := hostIn(t, newEye(t).up(), state)
	h.mustDeclare(`{"name":"a","source":"drawn.mp4","loop":true}`)
	h.results("a", 3)
	filler, err := os.Create(filepath.Join(state, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	for err = nil; err == nil; {
		_, err = filler.Write(make([]byte, 4096))
	}
	s := h.until("a", "waiting", func(s status) bool {
		return s.State == stateWaiting && strings.Contains(s.Reason, "no space left on device; it is tried again")
	})
	if code, text := h.declare(`{"name":"b","source":"drawn.mp4"}`); code != http.StatusInternalServerError || !strings.Contains(text, "--video-state") || !strings.Contains(text, "no space left") {
		t.Errorf("%d %s", code, text)
	}
	if err := errors.Join(filler.Truncate(0), filler.Close()); err != nil {
		t.Fatal(err)
	}
	for i, r := range h.results("a", int(s.Number)+30) {
		if r.Segment != i || r.Dropped != "" {
			t.Errorf("result %d is %+v", i, r)
		}
	}
	h.until("a", "running", func(s status) bool { return s.State == stateRunning && s.Reason == "" })
	h.mustDeclare(`{"name":"b","source":"drawn.mp4"}`)
	h.inOrder(h.results("b", 24))
	for _, name := range []string{"a", "b"} {
		if err := h.drop(name); err != nil {
			t.Error(err)
		}
	}
}
