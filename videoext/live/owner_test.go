package live

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/prefillonly/prefillonly/internal/reach"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg/rtsptest"
)

// as asks on behalf of an owner, and returns the status and the text of the answer.
func (h *host) as(by owner, method, path, body string) (int, string) {
	h.Helper()
	ctx, stop := context.WithTimeout(h.Context(), time.Minute) // results have no end
	defer stop()
	r, err := http.NewRequestWithContext(ctx, method, h.web.URL+Prefix+path, strings.NewReader(body))
	if err != nil {
		h.Fatal(err)
	}
	r.Header.Set(OwnerHeader, by.Owner)
	if by.Admin {
		r.Header.Set(AdminHeader, "true")
	}
	response, err := http.DefaultClient.Do(r)
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

// TestSourceSecrets: what may be a secret in a camera's URL is in no status, reason or line of the log, whoever asks, and in a file that only the
// server's user reads; what may be meant otherwise is refused with the code to write.
func TestSourceSecrets(t *testing.T) {
	const secret = "SECRETREST"
	h := newHost(t, newEye(t).up())
	h.end()
	var log strings.Builder
	h.logged = zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.Lock(zapcore.AddSync(&log)), zap.DebugLevel))
	h.begin()
	by := owner{Owner: "one"}
	for i, source := range []string{
		"rtsp://admin:" + secret + "@127.0.0.1:1/x", "rtsp://" + secret + "@127.0.0.1:1/x", "rtsp://127.0.0.1:1/user=admin_password=" + secret + "_channel=1.sdp",
		"rtsp://127.0.0.1:1/x?password=" + secret, "rtsp://127.0.0.1:1/x?token=" + secret,
	} {
		name := fmt.Sprint("s", i)
		code, text := h.as(by, http.MethodPost, "streams", fmt.Sprintf(`{"name":%q,"source":%q}`, name, source))
		if code != http.StatusCreated || strings.Contains(text, secret) || !strings.Contains(text, `"source":"rtsp://127.0.0.1:1/#`) {
			t.Errorf("%s: %d %s", source, code, text)
		}
		h.until(name, "refused", func(s status) bool { return strings.Contains(s.Reason, "refused") })
	}
	for source, hint := range map[string]string{"rtsp://admin:pre@" + secret + "#1@127.0.0.1:1/x": "%23", "rtsp://admin:pre@" + secret + "@127.0.0.1:1/x": "%40", "rtsp:/admin:" + secret + "@127.0.0.1/": "rtsp://"} {
		code, text := h.as(by, http.MethodPost, "streams", fmt.Sprintf(`{"name":"other","source":%q}`, source))
		if code != http.StatusBadRequest || strings.Contains(text, secret) || !strings.Contains(text, hint) {
			t.Errorf("%s: %d %s, want %q", source, code, text, hint)
		}
	}
	for _, who := range []owner{by, {Owner: "two", Admin: true}} {
		for _, path := range []string{"streams", "streams/s0"} {
			if _, text := h.as(who, http.MethodGet, path, ""); strings.Contains(text, secret) || !strings.Contains(text, "s0") {
				t.Errorf("%v is told %s", who, text)
			}
		}
	}
	h.Server.Close() // nothing is logged any more
	if strings.Contains(log.String(), secret) || !strings.Contains(log.String(), "127.0.0.1:1") {
		t.Errorf("the log has a secret, or no address: %s", log.String())
	}
	err := filepath.WalkDir(h.state, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if info, _ := d.Info(); strings.Contains(string(text), secret) && (d.Name() != specFile || info.Mode().Perm() != 0o600) {
			t.Errorf("%s, of mode %v, has a secret", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	h.begin()
}

// TestStreamsOfOthers: a stream is seen, watched and removed by who declared it and by admins, over restarts too. To others it is not there, but for its
// name, which is taken.
func TestStreamsOfOthers(t *testing.T) {
	h := newHost(t, newEye(t).up())
	one, two, admin := owner{Owner: "one"}, owner{Owner: "two"}, owner{Owner: "three", Admin: true}
	for _, spec := range []string{`{"name":"door","source":"camera"}`, `{"name":"clip","source":"drawn.mp4","loop":true}`} {
		if code, text := h.as(one, http.MethodPost, "streams", spec); code != http.StatusCreated {
			t.Fatal(code, text)
		}
	}
	h.until("clip", "seen", func(s status) bool { return s.Frames > 0 })
	for range 2 {
		_, missing := h.as(two, http.MethodGet, "streams/none", "")
		for _, c := range []struct{ method, path string }{
			{"GET", ""}, {"GET", "/frame.jpg"}, {"GET", "/segments"}, {"POST", "/camera"}, {"DELETE", ""}, {"GET", "/results?after=0"},
		} {
			for _, name := range []string{"door", "clip"} {
				code, text := h.as(two, c.method, "streams/"+name+c.path, "")
				if want := strings.Replace(missing, "none", name, 1); code != http.StatusNotFound || text != want {
					t.Errorf("%s of %s%s by another: %d %s, want %s", c.method, name, c.path, code, text, want)
				}
			}
		}
		if code, text := h.as(two, http.MethodGet, "streams", ""); code != http.StatusOK || !strings.Contains(text, `"data":[]`) {
			t.Errorf("another's list: %d %s", code, text)
		}
		if code, text := h.as(two, http.MethodPost, "streams", `{"name":"door","source":"camera"}`); code != http.StatusConflict || !strings.Contains(text, "the name is taken") {
			t.Errorf("another declares it: %d %s", code, text)
		}
		for _, by := range []owner{one, admin} {
			if code, text := h.as(by, http.MethodGet, "streams", ""); code != http.StatusOK || !strings.Contains(text, `"door"`) || !strings.Contains(text, `"clip"`) {
				t.Errorf("the list of %v: %d %s", by, code, text)
			}
			if code, text := h.as(by, http.MethodGet, "streams/clip", ""); code != http.StatusOK {
				t.Errorf("%v: %d %s", by, code, text)
			}
		}
		h.end()
		h.begin()
	}
	for name, by := range map[string]owner{"door": one, "clip": admin} {
		if code, text := h.as(by, http.MethodDelete, "streams/"+name, ""); code != http.StatusOK {
			t.Errorf("%v removes %s: %d %s", by, name, code, text)
		}
	}
}

// TestSourcesOfOthers: only who declared a stream is told its source, and why that cannot be read, over restarts too. Admins are told the same of a port
// that nobody has and of one that does not answer.
func TestSourcesOfOthers(t *testing.T) {
	h := newHost(t, newEye(t).up())
	camera := &rtsptest.Camera{Sends: "rtsp://192.0.2.1/"}
	one, two := owner{Owner: "one"}, owner{Owner: "two", Admin: true}
	for name, source := range map[string]string{"refused": "rtsp://127.0.0.1:1/x", "redirects": rtspCamera(t, camera), "file": "drawn.mp4", "program": "camera"} {
		if code, text := h.as(one, http.MethodPost, "streams", fmt.Sprintf(`{"name":%q,"source":%q}`, name, source)); code != http.StatusCreated {
			t.Fatal(code, text)
		}
	}
	for range 2 {
		h.until("refused", "refused", func(s status) bool { return strings.Contains(s.Reason, "Connection refused") })
		h.until("redirects", "refused", func(s status) bool { return strings.Contains(s.Reason, "redirects to another host") })
		for _, name := range []string{"refused", "redirects"} {
			if _, text := h.as(one, http.MethodGet, "streams/"+name, ""); !strings.Contains(text, "127.0.0.1") || !strings.Contains(text, "it is opened again") {
				t.Errorf("who declared it is told %s", text)
			}
			if _, text := h.as(two, http.MethodGet, "streams/"+name, ""); !strings.Contains(text, `"source":""`) || !strings.Contains(text, `"reason":"`+untold+`"`) {
				t.Errorf("another is told %s", text)
			}
			if _, text := h.as(two, http.MethodPost, "streams/"+name+"/camera", ""); strings.Contains(text, "127.0.0.1") {
				t.Errorf("a camera of another is told %s", text)
			}
		}
		if _, text := h.as(two, http.MethodGet, "streams", ""); strings.Contains(text, "127.0.0.1") || strings.Contains(text, "drawn") || !strings.Contains(text, `"source":"camera"`) {
			t.Errorf("another is told %s", text)
		}
		h.end()
		h.begin()
	}
}

// TestSourcesThatAreNotReached: what the server's operator did not mean to be reached is refused before anything is asked of it, and of a stream that
// was declared before, too.
func TestSourcesThatAreNotReached(t *testing.T) {
	h := newHost(t, newEye(t).up())
	one, admin := owner{Owner: "one"}, owner{Owner: "two", Admin: true}
	for _, host := range []string{"169.254.169.254", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "[fe80::1%25lo]", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "100.100.100.200"} {
		spec := Spec{Name: "s", Source: "rtsp://" + host + "/latest"}
		code, text := h.as(one, http.MethodPost, "streams", fmt.Sprintf(`{"name":"s","source":%q}`, spec.Source))
		if code != http.StatusBadRequest || !strings.Contains(text, `"param":"source"`) {
			t.Errorf("%s: %d %s", host, code, text)
		}
		if spec.check() == nil && h.permitSource(&spec, admin) != nil {
			t.Errorf("an admin does not reach %s", host)
		}
	}
	camera := &rtsptest.Camera{Pace: 20 * time.Millisecond, Loop: true}
	source := rtspCamera(t, camera)
	if code, text := h.as(one, http.MethodPost, "streams", fmt.Sprintf(`{"name":"door","source":%q}`, source)); code != http.StatusCreated {
		t.Fatal(code, text)
	}
	h.until("door", "running", func(s status) bool { return s.State == stateRunning })
	h.end()
	var err error
	if h.sources, err = reach.New([]string{"10.0.0.0/8", "camera.example"}); err != nil {
		t.Fatal(err)
	}
	connected := camera.Connected()
	h.begin()
	h.until("door", "not reached", func(s status) bool { return s.State == stateWaiting && strings.Contains(s.Reason, "may be reached") })
	if code, text := h.as(admin, http.MethodPost, "streams", fmt.Sprintf(`{"name":"s","source":%q}`, source)); code != http.StatusBadRequest || !strings.Contains(text, "--video-sources") || camera.Connected() != connected {
		t.Errorf("an admin beyond the list: %d %s, and %d connections after %d", code, text, camera.Connected(), connected)
	}
}

// TestFiguresOfOthers: the figures of a stream are told to whom the stream is, and to admins.
func TestFiguresOfOthers(t *testing.T) {
	h := newHost(t, newEye(t).up())
	one := owner{Owner: "one"}
	if code, text := h.as(one, http.MethodPost, "streams", `{"name":"door","source":"camera"}`); code != http.StatusCreated {
		t.Fatal(code, text)
	}
	for by, sees := range map[owner]bool{one: true, {Owner: "two"}: false, {Owner: "three", Admin: true}: true} {
		code, text := h.as(by, http.MethodGet, "../../metrics", "")
		if got := strings.Contains(text, `stream_name="door"`); code != http.StatusOK || got != sees || strings.Contains(text, "door") != sees {
			t.Errorf("%+v: %d %s", by, code, text)
		}
	}
}
