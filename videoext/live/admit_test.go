package live

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/internal/processors"
	"github.com/prefillonly/prefillonly/videoext/jobs"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg/rtsptest"
)

// TestCameraIsMeasured: a camera that speaks RTSP is admitted by the rate that it has, and refused with the figures until there is room.
func TestCameraIsMeasured(t *testing.T) {
	h := newHost(t, newEye(t).up())
	camera := &rtsptest.Camera{Loop: true, Pace: 20 * time.Millisecond}
	url := rtspCamera(t, camera)
	h.mustDeclare(fmt.Sprintf(`{"name":"slow","source":%q,"rate":6}`, url))
	h.mustDeclare(fmt.Sprintf(`{"name":"plain","source":%q}`, url))
	want := frameCost.Seconds() * rtsptest.Rate
	if s := h.until("plain", "admitted", func(s status) bool { return s.Number > 0 }); math.Abs(s.Load-want) > want/20 {
		t.Errorf("the load is %.4f, want %.4f", s.Load, want)
	}
	if s := h.of("slow"); math.Abs(s.Load-want/2) > want/40 {
		t.Errorf("the load of half the frames is %.4f, want %.4f", s.Load, want/2)
	}
}

// TestAdmission: a stream that takes more than is free is refused with the figures, over HTTP and later, and admitted when there is room.
func TestAdmission(t *testing.T) {
	h := newHost(t, newEye(t).up())
	want := func(code int, text, with string) {
		t.Helper()
		if code != http.StatusTooManyRequests || !strings.Contains(text, with) || !strings.Contains(text, `"overloaded"`) {
			t.Errorf("%d %s, want %q", code, text, with)
		}
	}
	h.mustDeclare(`{"name":"a","source":"camera","method":"mpeg","rate":200}`)
	code, text := h.declare(`{"name":"b","source":"camera","method":"mpeg","rate":200}`)
	want(code, text, "200 frames a second at 2ms each take 0.4 of a device, and 0.3 are left of the 0.7 that streams may take of 1")
	code, text = h.declare(`{"name":"b","source":"camera","method":"dds","rate":100}`)
	want(code, text, "take 0.4 of a device, and 0.3 are left")
	h.mustDeclare(`{"name":"b","source":"camera","method":"dds","rate":70}`)
	camera := &rtsptest.Camera{Loop: true, Pace: 20 * time.Millisecond}
	h.mustDeclare(fmt.Sprintf(`{"name":"c","source":%q}`, rtspCamera(t, camera)))
	s := h.until("c", "refused", func(s status) bool {
		return s.State == stateWaiting && strings.Contains(s.Reason, "frames a second at 2ms each take 0.024 of a device")
	})
	if s.Number != 0 || s.Load != 0 {
		t.Errorf("%+v", s)
	}
	h.end()
	h.begin() // what was taken stays so
	if a, b := h.of("a").Load, h.of("b").Load; math.Abs(a-0.4) > 1e-9 || math.Abs(b-0.28) > 1e-9 {
		t.Errorf("after a restart the loads are %v and %v", a, b)
	}
	code, text = h.declare(`{"name":"d","source":"drawn.mp4"}`)
	want(code, text, "12 frames a second at 2ms each take 0.024 of a device, and 0.02 are left")
	if err := h.drop("b"); err != nil {
		t.Fatal(err)
	}
	h.until("c", "admitted", func(s status) bool { return s.Number > 0 })
	h.mustDeclare(`{"name":"d","source":"drawn.mp4"}`)
	h.results("d", 24)
}

// TestProcessorsAreAdmittedToo: streams whose frames take more of the processors than there is are refused with the figures, though the device is free.
func TestProcessorsAreAdmittedToo(t *testing.T) {
	h := newHost(t, newEye(t).up())
	h.mustDeclare(`{"name":"a","source":"camera","method":"mpeg","rate":1}`)
	slots := processors.Shared().Slots()
	whole := demand{Rate: 10 * float64(slots), Width: 7680, Height: 4320}
	h.Server.mu.Lock()
	h.Server.streams["a"].part.setDemand(demand{Rate: 0.5, Width: 7680, Height: 4320})
	err := h.Server.admitToProcessors(&Spec{Name: "b"}, whole)
	fits := h.Server.admitToProcessors(&Spec{Name: "b"}, demand{Rate: 1, Width: 1280, Height: 720})
	again := h.Server.admitToProcessors(&Spec{Name: "a"}, demand{Rate: 0.5, Width: 7680, Height: 4320})
	h.Server.mu.Unlock()
	want := fmt.Sprintf("%v frames a second of 7680 x 4320 take %.3g of a processor to decode and scale, and %.3g are left of the %.3g that streams may take of %d",
		whole.Rate, whole.processors(pixelTime), mostUse*float64(slots)-demand{Rate: 0.5, Width: 7680, Height: 4320}.processors(pixelTime), mostUse*float64(slots), slots)
	if err == nil || !strings.Contains(err.Error(), want) || fits != nil || again != nil {
		t.Errorf("got %v, want %q; others %v, %v", err, want, fits, again)
	}
}

// TestAdapt: the short form of a method stands for it, and names what it cannot go with.
func TestAdapt(t *testing.T) {
	h := newHost(t, newEye(t).up())
	h.mustDeclare(`{"name":"a","source":"camera","adapt":"oneadapt"}`)
	if s := h.of("a"); s.Method != adaptMethod || s.Adapt != "" {
		t.Errorf("%+v", s)
	}
	for body, want := range map[string]string{
		`"source":"camera","adapt":"oneadapt","method":"mpeg"`: `adapt is \"oneadapt\" and method \"mpeg\"`,
		`"source":"camera","adapt":"twoadapt"`:                 "oneadapt is right",
		`"source":"drawn.mp4","adapt":"oneadapt"`:              "only a camera's program",
	} {
		code, text := h.declare(`{"name":"b",` + body + `}`)
		if code != http.StatusBadRequest || !strings.Contains(text, want) || !strings.Contains(text, `"param":"adapt"`) {
			t.Errorf("%s: %d %s", body, code, text)
		}
	}
}

// TestAdaptNeedsGradients: a network whose outputs have none is refused for a method that asks for them, and which would have them is told.
func TestAdaptNeedsGradients(t *testing.T) {
	h := newHost(t, newEye(t)) // what the model computes is not known yet
	h.SetModels([]Model{{Names: []string{"eye"}, Decoder: "gfl"}})
	for _, how := range []string{`"adapt":"oneadapt"`, `"method":"oneadapt:knobs=codec"`} {
		code, text := h.declare(`{"name":"a","source":"camera",` + how + `}`)
		if code != http.StatusBadRequest || !strings.Contains(text, "decoder gfl has no gradient; these have: yolox") || !strings.Contains(text, `"param":"method"`) {
			t.Errorf("%s: %d %s", how, code, text)
		}
	}
}

// TestWrongDecoderIsRefused: a decoder that cannot read what the model computes is refused when a stream is declared, whatever its source, with the decoder
// that can.
func TestWrongDecoderIsRefused(t *testing.T) {
	h := newHost(t, newEye(t).up())
	h.SetModels([]Model{{Names: []string{"eye"}, Decoder: "yolox"}})
	for _, source := range []string{"camera", "drawn.mp4", "rtsp://127.0.0.1:1/x"} {
		code, text := h.declare(fmt.Sprintf(`{"name":"a","source":%q}`, source))
		if code != http.StatusBadRequest || !strings.Contains(text, `"param":"model"`) || !strings.Contains(text, "the model eye: decoder yolox: it reads one output of 3 dimensions") ||
			!strings.Contains(text, "outputs like these are read by ssd") {
			t.Errorf("%s: %d %s", source, code, text)
		}
	}
	h.SetModels(eyes)
	h.mustDeclare(`{"name":"a","source":"drawn.mp4"}`)
	h.results("a", 1)
}

// TestAdmissionMeasures: before a stream is refused for what the pool has told, frames are looked at; one that takes less than was told is admitted.
func TestAdmissionMeasures(t *testing.T) {
	for takes, admitted := range map[time.Duration]bool{frameCost / 4: true, frameCost * 3 / 4: false, frameCost * 2: false} {
		t.Run(takes.String(), func(t *testing.T) {
			e := newEye(t).up()
			e.takes = takes
			h := newHost(t, e)
			h.mustDeclare(`{"name":"a","source":"camera","method":"mpeg","rate":240}`)
			code, text := h.declare(`{"name":"b","source":"camera","method":"mpeg","rate":240}`)
			if got := code == http.StatusCreated; got != admitted {
				t.Errorf("%d %s", code, text)
			}
		})
	}
}

// TestAdmissionAfterRestart: streams that were taken up count as soon as the pool tells what frames take, and nothing waits for that but who asks for more.
func TestAdmissionAfterRestart(t *testing.T) {
	h := newHost(t, newEye(t).up())
	h.mustDeclare(`{"name":"a","source":"camera","method":"mpeg","rate":200}`)
	h.end()
	h.eye = newEye(t)
	h.maker = jobs.New(h.eye.pool)
	t.Cleanup(h.maker.Close)
	h.begin()
	answer := make(chan string)
	go func() {
		code, text := h.declare(`{"name":"b","source":"camera","method":"mpeg","rate":200}`)
		answer <- fmt.Sprint(code, " ", text)
	}()
	for range 20 {
		if s := h.of("a"); s.Load != 0 || s.State != stateWaiting {
			t.Fatalf("%+v", s)
		}
		time.Sleep(5 * time.Millisecond)
	}
	h.eye.up()
	if got := <-answer; !strings.HasPrefix(got, "429") {
		t.Error(got)
	}
	if s := h.of("a"); math.Abs(s.Load-0.4) > 1e-9 {
		t.Errorf("%+v", s)
	}
}
