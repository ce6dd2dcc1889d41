package live

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg/rtsptest"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/session"
)

// within is a host whose streams may take so many mebibytes.
func within(t *testing.T, mebibytes int64) *host {
	t.Helper()
	h := newHost(t, newEye(t).up())
	h.end()
	h.memory = mebibytes << 20
	h.begin()
	return h
}

// declareAs asks for a stream with the key of an owner.
func (h *host) declareAs(owner, spec string) int {
	h.Helper()
	request, err := http.NewRequestWithContext(h.Context(), http.MethodPost, h.web.URL+Prefix+"streams", strings.NewReader(spec))
	if err != nil {
		h.Fatal(err)
	}
	request.Header.Set(OwnerHeader, owner)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		h.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode
}

// TestLargeCamerasAreRefusedBeforeTheyAreDecoded: of cameras of 8K with 16 references at a frame in 20 s, which take next to nothing of the device,
// the first is read, and the others are refused with what they take and what is left.
func TestLargeCamerasAreRefusedBeforeTheyAreDecoded(t *testing.T) {
	h := within(t, 2<<10)
	large := &rtsptest.Camera{Units: rtsptest.Grey(7680, 4320, 16, 2)}
	url := large.Start(t)
	const cameras = 6
	for i := range cameras {
		h.mustDeclare(fmt.Sprintf(`{"name":"large%d","source":%q,"rate":0.05}`, i, url))
	}
	refused := 0
	for i := range cameras {
		s := h.until(fmt.Sprint("large", i), "opened", func(s status) bool { return s.Reason != "" || h.size(s.Name) > 0 })
		if strings.Contains(s.Reason, "7680 x 4320 pixels") && strings.Contains(s.Reason, "takes 1677 MiB of memory, and 371 are left of the 2048 MiB") {
			refused++
		}
	}
	if refused != cameras-1 {
		t.Errorf("%d of %d are refused", refused, cameras)
	}
	h.mustDeclare(fmt.Sprintf(`{"name":"small","source":%q}`, rtspCamera(t, &rtsptest.Camera{Loop: true, Pace: 20 * time.Millisecond})))
	h.results("small", 3)
}

// size is what the source of a stream holds.
func (h *host) size(name string) int64 {
	st, err := h.findStream(name, owner{Admin: true})
	if err != nil {
		h.Fatal(err)
	}
	return st.intake.(*sourceIntake).held.Size()
}

// TestFilesAreAdmittedByMemory: a file that takes more than is left is refused when it is declared; one that is played keeps its part over restarts,
// and gives it back when it has ended or is removed.
func TestFilesAreAdmittedByMemory(t *testing.T) {
	h := within(t, 8)
	h.mustDeclare(`{"name":"a","source":"drawn.mp4","loop":true}`)
	code, text := h.declare(`{"name":"b","source":"drawn.mp4"}`)
	if code != http.StatusTooManyRequests || !strings.Contains(text, "video of 96 x 64 pixels takes 6 MiB of memory, and 2 are left of the 8 MiB") {
		t.Errorf("%d %s", code, text)
	}
	h.end()
	h.begin()
	if code, text = h.declare(`{"name":"b","source":"drawn.mp4"}`); code != http.StatusTooManyRequests {
		t.Errorf("after a restart: %d %s", code, text)
	}
	if err := h.drop("a"); err != nil {
		t.Fatal(err)
	}
	h.mustDeclare(`{"name":"b","source":"drawn.mp4"}`)
	h.until("b", "ended", func(s status) bool { return s.State == stateEnded })
	if held := h.Server.memory.Held(); held != 0 {
		t.Errorf("%d bytes are held", held)
	}
}

// sent is a segment of a camera, of one frame that cannot be decoded.
func sent(n int, bytes int) session.Message {
	data := append([]byte{0, 0, 0, 1, 0x65}, make([]byte, bytes)...)
	return &session.Sent{Segment: method.Segment(n), Of: 1, Frames: []int{0}, Data: &media.Segment{Width: 96, Height: 64, Rate: 12, Units: []media.Unit{{Data: data}}}}
}

// TestCamerasAreBoundedInMemory: what a camera sends takes memory before it is read, and gives it back when it is done, refused or comes again.
func TestCamerasAreBoundedInMemory(t *testing.T) {
	h := within(t, 16)
	hello := said(t, &session.Hello{Width: 96, Height: 64, Rate: 12, Camera: "c"})
	h.mustDeclare(`{"name":"door","source":"camera","method":"mpeg"}`)
	begin := func(data []byte) string {
		why, _ := h.session("door", append(hello[:len(hello):len(hello)], data...)).refused()
		return why
	}
	if why := begin(binary.AppendUvarint(nil, 17<<20)); !strings.Contains(why, "a message of the camera takes 17 MiB of memory, and 16 are left of the 16 MiB") {
		t.Error(why)
	}
	for i := range 8 { // each of another segment, far ahead
		if why := begin(said(t, sent(1<<20+i, 2<<20))); !strings.Contains(why, "too far") {
			t.Fatalf("session %d: %s", i, why)
		}
	}
	var data []byte
	for i := range 12 {
		data = append(data, said(t, sent(i, 1<<20), sent(i, 1<<20))...)
	}
	c := h.session("door", append(hello[:len(hello):len(hello)], append(data, said(t, &session.Ended{})...)...))
	defer c.Close()
	h.results("door", 12)
	h.until("door", "ended", func(s status) bool { return s.State == stateEnded })
	if held := h.Server.memory.Held(); held != 0 {
		t.Errorf("%d bytes are held", held)
	}
	if why, _ := h.session("door", binary.AppendUvarint(nil, session.MaxHelloBytes+1)).refused(); !strings.Contains(why, "4096 are the most") {
		t.Error(why)
	}
}

// TestKeysShareStreams: a key may have three quarters of the streams that others leave, so that no key has them all.
func TestKeysShareStreams(t *testing.T) {
	h := newHost(t, newEye(t).up())
	n := 0
	for _, c := range []struct {
		owner string
		most  int
	}{{"one", 192}, {"two", 48}, {"three", 12}} {
		for i := range c.most + 1 {
			n++
			code := h.declareAs(c.owner, fmt.Sprintf(`{"name":"s%d","source":"camera","method":"mpeg"}`, n))
			if want := map[bool]int{true: http.StatusCreated, false: http.StatusTooManyRequests}[i < c.most]; code != want {
				t.Fatalf("stream %d of %s: %d, want %d", i, c.owner, code, want)
			}
		}
	}
	h.end()
	h.begin() // they are whose they were
	if code := h.declareAs("one", `{"name":"more","source":"camera","method":"mpeg"}`); code != http.StatusTooManyRequests {
		t.Errorf("after a restart: %d", code)
	}
	if code := h.declareAs("four", `{"name":"more","source":"camera","method":"mpeg"}`); code != http.StatusCreated {
		t.Errorf("another key: %d", code)
	}
}
