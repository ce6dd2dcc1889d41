package main

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg/rtsptest"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/session"
)

// hostile is what no camera that adapts sends, by what is wrong with it.
func hostile(t *testing.T) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	say := func(name string, m session.Message) {
		t.Helper()
		data, err := session.Append(nil, m)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[name] = data
	}
	sent := func(name string, change func(s *session.Sent)) {
		t.Helper()
		s := &session.Sent{Of: 2, Frames: []int{0, 1}, Container: 300, Data: &media.Segment{Width: 96, Height: 64, Rate: 12, Units: rtsptest.Drawn()[:2]}}
		change(s)
		say(name, s)
	}
	cells := func(columns, rows int, qp uint8) func(s *session.Sent) {
		return func(s *session.Sent) {
			q := &media.QPMap{Columns: columns, Rows: rows, QP: make([]uint8, columns*rows)}
			for i := range q.QP {
				q.QP[i] = qp
			}
			s.Knobs.Quantisers = q
		}
	}
	sent("quantisers above all", cells(6, 4, 255))
	sent("too many cells", cells(media.SummaryCells+1, 2, 30))
	sent("more cells than macroblocks", cells(media.SummaryCells, media.SummaryCells, 30))
	sent("one cell", cells(1, 1, 0))
	sent("rows that are cut", func(s *session.Sent) { s.Knobs.Quantisers = &media.QPMap{Columns: 5, Rows: 2, QP: make([]uint8, 7)} })
	sent("no cells", func(s *session.Sent) { s.Knobs.Quantisers = &media.QPMap{Columns: 5} })
	sent("bias", func(s *session.Sent) { s.Knobs.BBias = 1 << 20 })
	sent("bias below", func(s *session.Sent) { s.Knobs.BBias = -101 })
	sent("bytes of a file", func(s *session.Sent) { s.Container = math.MaxInt32 })
	sent("far segment", func(s *session.Sent) { s.Segment = math.MaxInt32 })
	sent("more frames than it has", func(s *session.Sent) { s.Frames = []int{0, 7} })
	sent("other size", func(s *session.Sent) { s.Data.Width, s.Data.Height = 16, 16 })
	sent("vast size", func(s *session.Sent) { s.Data.Width, s.Data.Height = 16384, 16384 })
	sent("rate", func(s *session.Sent) { s.Data.Rate = math.NaN() })
	sent("stream B", func(s *session.Sent) { s.Stream = method.B })
	gradient := func(width, height int) *session.Answered {
		m := oneadapt.NewMap(width, height)
		m.Values[0], m.Utility = 1, 1
		return &session.Answered{Answer: method.Answer{Content: method.Sensitive{Gradient: m}}}
	}
	say("a gradient", gradient(6, 4))
	say("a vast gradient", gradient(1000, 1000))
	for name, number := range map[string]float64{"no number": math.NaN(), "endless": math.Inf(1), "negative": -1} {
		for at, what := range map[int]string{0: "elements", 4: "parts"} {
			data, err := session.Append(nil, gradient(6, 4))
			if err != nil {
				t.Fatal(err)
			}
			at += strings.Index(string(data), "\x01\x06\x04\x00\x00\x80\x3f") + 3 // a map's version and sides, and 1 as a float
			binary.LittleEndian.PutUint32(data[at:], math.Float32bits(float32(number)))
			_, head := binary.Uvarint(data)
			sum := crc32.Checksum(append([]byte{data[head]}, data[head+5:]...), crc32.MakeTable(crc32.Castagnoli))
			binary.BigEndian.PutUint32(data[head+1:], sum)
			all["a gradient of "+name+" "+what] = data
		}
	}
	say("words of a server", &session.Welcome{Method: "oneadapt"})
	say("done", &session.Done{Segment: 1 << 20})
	return all
}

// TestVideoHostileKnobs: whatever a camera says of knobs and gradients, no process dies of it, another stream goes on, and a good camera can stream afterwards.
func TestVideoHostileKnobs(t *testing.T) {
	bin := buildCamera(t)
	p := serveEyes(t, eyeEntry("eye", eyeFile(t, 1)))
	p.mustDeclare(`{"name":"calm","source":"drawn.mp4","loop":true,"rate":4}`)
	roles := map[string]int{}
	for _, role := range []string{"video", "frontend", "scheduler", "executor"} {
		roles[role] = p.child(role)
	}
	for name, data := range hostile(t) {
		stream := strings.ReplaceAll(name, " ", "-")
		p.mustDeclare(fmt.Sprintf(`{"name":%q,"source":"camera","method":"oneadapt:frames=2,preset=tuned"}`, stream))
		conn, from := p.sessionOf(stream)
		response, err := http.ReadResponse(from, nil)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%s: %+v, %v", name, response, err)
		}
		if _, err := fmt.Fprintf(conn, "%x\r\n%s\r\n0\r\n\r\n", len(data), data); err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(response.Body); err != nil {
			t.Errorf("%s: the session does not end: %q, %v", name, text, err)
		}
		conn.Close()
		text, err := exec.CommandContext(t.Context(), filepath.Join(bin, "camera"), "run", "--server", p.base, "--stream", stream, "--realtime=false",
			"--source", "../../videoext/media/ffmpeg/testdata/drawn.mp4").CombinedOutput()
		if err != nil {
			t.Errorf("%s: a good camera fails behind it: %v\n%s", name, err, text)
		}
		response, err = http.Get(p.base + "/v1/video/streams/" + stream + "/segments")
		if err != nil {
			t.Fatal(err)
		}
		if text := readAll(t, response); response.StatusCode != http.StatusOK {
			t.Errorf("%s: segments are %d %s", name, response.StatusCode, text)
		}
	}
	for role, pid := range roles {
		if now := p.child(role); now != pid {
			t.Errorf("process %d of the %s is %d now", pid, role, now)
		}
	}
	s, _ := p.streamIs("calm")
	p.untilStream("calm", "goes on", func(now streamStatus) bool { return now.State == "running" && now.Number > s.Number })
}
