package telemetry

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
)

// capture returns what f writes to stderr.
func capture(t *testing.T, f func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr := os.Stderr
	os.Stderr = w
	f()
	os.Stderr = stderr
	w.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestFormats(t *testing.T) {
	t.Setenv("JOURNAL_STREAM", "")
	for format, isJSON := range map[string]bool{"json": true, "auto": true, "console": false} { // a pipe is no terminal
		text := capture(t, func() {
			log, err := NewLogger("info", format, "executor")
			if err != nil {
				t.Fatal(err)
			}
			log.Debug("hidden")
			log.Info("shown", zap.Duration("took", 1500*time.Millisecond))
		})
		var line struct{ TS, Level, Logger, Msg, Took string }
		err := json.Unmarshal([]byte(text), &line)
		if isJSON && (err != nil || line.Level != "info" || line.Logger != "executor" || line.Msg != "shown" || line.Took != "1.5s" || line.TS == "") {
			t.Errorf("%s: %q, %v", format, text, err)
		}
		if !isJSON && (err == nil || !strings.Contains(text, "INFO\texecutor\tshown")) {
			t.Errorf("%s: %q", format, text)
		}
		if strings.Count(text, "\n") != 1 {
			t.Errorf("%s: %q, want one line", format, text)
		}
	}
}

func TestJournal(t *testing.T) {
	t.Setenv("JOURNAL_STREAM", "8:1")
	text := capture(t, func() {
		log, err := NewLogger("debug", "auto", "serve")
		if err != nil {
			t.Fatal(err)
		}
		log.Debug("d")
		log.Info("i")
		log.Warn("w")
		log.Error("e")
	})
	if want := "<7> serve d\n<6> serve i\n<4> serve w\n<3> serve e\n"; text != want {
		t.Errorf("got %q, want %q", text, want)
	}
}

func TestBadSettings(t *testing.T) {
	for _, c := range [][2]string{{"loud", "json"}, {"info", "xml"}} {
		if _, err := NewLogger(c[0], c[1], "x"); err == nil || !strings.Contains(err.Error(), "want") {
			t.Errorf("NewLogger(%q, %q) = %v", c[0], c[1], err)
		}
	}
}

func TestServeDebug(t *testing.T) {
	none, err := ServeDebug(0, 2, zap.NewNop())
	if err != nil || none.Close() != nil {
		t.Errorf("port 0: %v", err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	if _, err := ServeDebug(port-1, 1, zap.NewNop()); err == nil || !strings.Contains(err.Error(), "debug-port") {
		t.Errorf("a port in use: %v", err)
	}
	free.Close()
	server, err := ServeDebug(port-1, 1, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	response, err := http.Get("http://" + free.Addr().String() + "/debug/pprof/goroutine?debug=1")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("pprof answers %s", response.Status)
	}
}
